"""Random graphs of exchanges over workers come to their end. See `random_exchanges` for more."""

from pathlib import Path

import pytest

from tests.support.random_exchanges import check_seed


@pytest.mark.parametrize("seed", [16])
def test_exchanges_with_channels_of_one_batch_do_not_stand_still(tmp_path: Path, seed: int) -> None:
    check_seed(tmp_path, seed)
