"""The page's style: that of the report on recipes, and what a timeline needs beside."""

from habana_tf.cli.recipes.page.style import STYLE as _SHARED

STYLE = (
    _SHARED
    + """
:root { --k-launch: #a9c8ec; --k-kernel: #cfe3d6; --k-compile: #efd39a; --k-copy: #d5d9de; --k-wait: #f0b3b3;
  --k-cpu: #bfe0e4; --k-MME: #cdbcec; --k-TPC: #b5dcc6; --k-DMA: #d5d9de; --k-NIC: #f0b3b3; --k-bundle: #e9e2cf;
  --k-unpredicted: #ff9d6b; }
@media (prefers-color-scheme: dark) { :root { --k-launch: #2c4f78; --k-kernel: #2b5341; --k-compile: #6a5120;
  --k-copy: #444d57; --k-wait: #7a3535; --k-cpu: #24565c; --k-MME: #53408a; --k-TPC: #26604a; --k-DMA: #444d57;
  --k-NIC: #7a3535; --k-bundle: #544d38;
  --k-unpredicted: #b3541e; } }
@media print { :root { color-scheme: light; --ink: #1d2733; --quiet: #66717e; --paper: #fff; --panel: #f5f7f9;
  --rule: #dde3e9; --mme: #7b4fc9; --tpc: #23835b; --blue: #2f6fc1; --k-launch: #a9c8ec; --k-kernel: #cfe3d6;
  --k-compile: #efd39a; --k-copy: #d5d9de; --k-wait: #f0b3b3; --k-cpu: #bfe0e4; --k-MME: #cdbcec; --k-TPC: #b5dcc6;
  --k-DMA: #d5d9de; --k-NIC: #f0b3b3; --k-bundle: #e9e2cf;
  --k-unpredicted: #ff9d6b; }
  button, .note { display: none; } figure { break-inside: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
body { max-width: 1340px; overflow-wrap: anywhere; }
canvas { width: 100%; display: block; touch-action: pan-y; cursor: grab; outline-offset: 2px; }
.controls { display: flex; flex-wrap: wrap; gap: .4rem; align-items: center; margin-bottom: .4rem; }
button { font: inherit; font-size: 12px; color: var(--ink); background: var(--paper); border: 1px solid var(--rule);
  border-radius: 6px; padding: .2rem .6rem; cursor: pointer; } button:disabled { opacity: .4; cursor: default; }
.note { font-size: 12px; min-height: 1.5em; } .key span { display: inline-block; width: 11px; height: 11px;
  border-radius: 2px; margin: 0 .3rem -1px .7rem; }
th, td + td { overflow-wrap: normal; } td:first-child { min-width: 9rem; } .charts svg { width: 100%; }
@media screen and (min-width: 800px) { td:first-child { min-width: 20rem; } }
.kernel-dot { fill-opacity: .55; stroke-width: 1; } .kernel-dot.MME { fill: var(--mme); }
.kernel-dot.TPC { fill: var(--tpc); }
.flame { display: flex; } .frame { flex-basis: 0; min-width: 0; display: flex; flex-direction: column; }
.within { display: flex; } .gap { flex-basis: 0; min-width: 0; }
.bar { display: block; font-size: 11px; line-height: 17px; height: 17px; margin: 0 1px 1px 0; padding: 0 3px;
  overflow: hidden; white-space: nowrap; text-overflow: ellipsis; border-radius: 2px; color: #fff; }
.bar.b0 { background: #3f74b0; } .bar.b1 { background: #3c8468; } .bar.b2 { background: #94692c; }
.bar.b3 { background: #785ca4; } .bar.b4 { background: #327f87; } .bar.b5 { background: #a0506a; }
"""
)
