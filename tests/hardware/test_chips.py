"""The chip table holds the real chips' numbers, and the setting chooses from it."""

from __future__ import annotations

import pytest

from habana_tf import settings
from habana_tf.hardware.chips import chip, chips


def test_published_numbers() -> None:
    table = {each.name: each for each in chips()}
    assert [each.device_type for each in chips()] == ["GAUDI", "GAUDI2", "GAUDI3"]
    assert [each.product for each in chips()] == ["HL-205", "HL-225", "HL-325L"]
    assert [each.hbm_bytes >> 20 for each in chips()] == [32768, 98304, 131072]
    assert table["gaudi"].sram_bytes == 0x1400000
    # Published peak: Gaudi2 432 bf16 TFLOPS; Gaudi's follows from its arrays and clock; Gaudi3's of 1835 needs
    # 1,750 MHz, its cards report 1,600.
    assert table["gaudi"].peak_bf16_flops == pytest.approx(59.0e12, rel=0.001)
    assert table["gaudi2"].peak_bf16_flops == pytest.approx(432e12, rel=0.002)
    assert table["gaudi3"].peak_bf16_flops == pytest.approx(1835e12 * 1600 / 1750, rel=0.001)


def test_the_setting_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HABANA_SIM_CHIP", raising=False)
    assert chip().name == "gaudi2"
    monkeypatch.setenv("HABANA_SIM_CHIP", "gaudi3")
    assert chip().device_type == "GAUDI3"
    assert chip("gaudi").device_type == "GAUDI"


def test_an_unknown_chip_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"'h100'.*gaudi, gaudi2, gaudi3"):
        chip("h100")
    monkeypatch.setenv("HABANA_SIM_CHIP", "goya")
    with pytest.raises(settings.SettingError, match="HABANA_SIM_CHIP='goya'"):
        chip()


def test_which_arrays_are_fed_and_which_stay_below_their_peak() -> None:
    """Gaudi's arrays of 256 x 64 read 320 numbers of bf16 a cycle; Gaudi3's best products reach three quarters."""
    assert [each.mme_fed for each in chips()] == [False, True, True]
    assert [each.mme_held_back for each in chips()] == [False, False, True]
