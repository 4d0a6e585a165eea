"""Packages of Habana's that are not here: their names can be imported, and refuse when they are used."""

from __future__ import annotations

import pytest


def test_names_at_any_depth_can_be_imported_subclassed_and_asked_about() -> None:
    from habana_frameworks.mediapipe.media_types import dtype
    from habana_frameworks.mediapipe.mediapipe import MediaPipe
    from habana_frameworks.mediapipe.operators.cpu_nodes.cpu_nodes import media_function

    from habana_frameworks.mediapipe import fn

    class Pipe(MediaPipe):  # type: ignore[misc]
        pass

    assert issubclass(Pipe, MediaPipe) and not isinstance(dtype.UINT8, MediaPipe)
    for use, name in ((Pipe, "MediaPipe"), (fn.Crop, "fn.Crop"), (media_function, "cpu_nodes.media_function")):
        with pytest.raises(RuntimeError, match=rf"{name} is not part of the simulated card: decode and resize"):
            use()
    assert not hasattr(fn, "__wrapped__")
    assert {dtype.UINT8: 1}[dtype.UINT8] == 1 and dtype.UINT8 != dtype.FLOAT32


def test_habanas_loader_of_pictures_names_the_one_to_use() -> None:
    import habana_dataloader

    assert not isinstance(3, habana_dataloader.habana_dataset.ImageFolderWithManifest)
    with pytest.raises(RuntimeError, match=r"HabanaDataLoader is not part .* torch.utils.data.DataLoader"):
        habana_dataloader.HabanaDataLoader()
