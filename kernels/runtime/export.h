// What libhabana_runtime.so shows to the plugin and to the bridge.
#pragma once

#define HABANA_EXPORT __attribute__((visibility("default")))
