"""Snapshots of a service without a log: while it runs, where enough has changed."""

import asyncio

from detecting import accept, page
from needing import linux_only
from services import RECIPE

from dedup.service.core import snapshots as module
from dedup.service.core.namespaces import Asked, Namespaces


def test_a_snapshot_is_written_while_the_service_runs(tmp_path, monkeypatch):
    """Without one a kill would have the next start read every document."""
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(module, "SNAPSHOT_DOCUMENTS", 10)
    namespaces = Namespaces(tmp_path)
    detector = namespaces.detector("news", Asked(), RECIPE)
    snapshot = tmp_path / "news" / "table.ndd"

    async def main():
        running = asyncio.create_task(module.snapshots(namespaces))
        for i in range(9):
            accept(detector, page(i << 20), f"http://example.com/{i}", exempt="test")
        await asyncio.sleep(0.1)
        assert not snapshot.exists()
        accept(detector, page(1 << 40), "http://example.com/last", exempt="test")
        async with asyncio.timeout(60):
            while not snapshot.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        running.cancel()

    asyncio.run(main())
    namespaces.close()


@linux_only
def test_a_store_is_for_its_owner_only(tmp_path):
    """Its folder and its documents, whatever the umask."""
    namespaces = Namespaces(tmp_path)
    namespaces.detector("news", Asked(), RECIPE)
    namespaces.close()
    assert (tmp_path / "news").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "news" / "documents.mdb").stat().st_mode & 0o177 == 0
