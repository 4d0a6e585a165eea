"""Which of how many processes this one is, for scripts that ask as on a Gaudi."""

from __future__ import annotations

from habana_tf.hardware import cards, claim, ranks
from habana_tf.settings import HLS_MODULE_ID


def initialize_distributed_hpu(
    world_size: int | None = None, rank: int | None = None, local_rank: int | None = None
) -> tuple[int, int, int]:
    """(world size, rank, local rank) of this process, as its launcher says: torchrun, `habana-tf run`, mpirun or srun.
    Without a launcher they are 1, -1, -1.

    Given numbers are taken instead; a local rank then chooses the card, unless HLS_MODULE_ID does or one is held.
    Raises hardware.ranks.RankError, hardware.cards.CardError or settings.SettingError.
    """
    found = ranks.launched()
    said = (1, -1, -1) if found is None else (found.size, found.rank, found.local_rank)
    given = (world_size, rank, local_rank)
    if found is None and local_rank is not None and local_rank >= 0 and HLS_MODULE_ID.get() is None:
        allowed = cards.visible_cards()
        if local_rank >= len(allowed):
            raise cards.CardError(
                f"local rank {local_rank} has no card: this process may use {len(allowed)} card(s). Start fewer "
                "processes, or make more cards visible (HABANA_VISIBLE_MODULES, HABANA_SIM_CARDS)"
            )
        if claim.held_card() is None:
            HLS_MODULE_ID.set(str(allowed[local_rank].module_id))
    size, place, local = (s if g is None else g for s, g in zip(said, given, strict=True))
    return size, place, local
