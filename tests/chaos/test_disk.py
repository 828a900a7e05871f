"""The disk that a fault fills."""

import pytest

from chaos.stage.disk import Disk, may_mount


@pytest.mark.skipif(not may_mount(), reason="file systems cannot be mounted here")
class TestADisk:
    def test_takes_nothing_more_while_it_is_full(self, tmp_path):
        with Disk(tmp_path / "disk", fillable=True) as disk:
            kept = disk.path / "kept"
            kept.write_bytes(bytes(100_000))
            disk.fill()
            with pytest.raises(OSError, match="No space left"):
                (disk.path / "more").write_bytes(bytes(100_000))
            disk.free()
            (disk.path / "more").write_bytes(bytes(100_000))
            assert kept.read_bytes() == bytes(100_000)
        assert list((tmp_path / "disk").iterdir()) == []

    def test_that_need_not_be_filled_is_a_directory(self, tmp_path):
        with Disk(tmp_path / "disk", fillable=False) as disk:
            (disk.path / "file").touch()
        assert (tmp_path / "disk" / "file").exists()
