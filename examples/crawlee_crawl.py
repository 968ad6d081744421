"""A Crawlee crawl that handles each text once: python examples/crawlee_crawl.py URL [skip|tag]

deduplicate() is all there is to it; the rest is an ordinary crawler. pip install 'crawlee[parsel]'
"""

import asyncio
import sys

try:
    from crawlee import RequestState
    from crawlee.crawlers import ParselCrawler
    from crawlee.errors import ContextPipelineInterruptedError
    from crawlee.storage_clients import MemoryStorageClient
except ImportError as missing:
    sys.exit(f"{missing}; pip install 'crawlee[parsel]'")

import dedup


async def decide(detector, request, response):
    """Return the verdict on a page that was fetched."""
    url, key = request.loaded_url or request.url, dedup.document_key(request.url)
    charset = response.headers.get("content-type").partition("charset=")[2].strip("\"' ") or None
    page = detector.fingerprint(await response.read(), encoding=charset, url=url)
    return await detector.decide(page, key, url=url)


def deduplicate(crawler, detector, mode="skip"):
    """Judge each page before its handler, which finds the verdict in request.user_data["dedup"].

    A near-duplicate is skipped, or in the mode "tag" handled like any other page.
    """

    @crawler.post_navigation_hook
    async def judge(context):
        request, response = context.request, context.http_response
        if response.status_code != 200 or "html" not in response.headers.get("content-type", ""):
            return
        try:
            verdict = await decide(detector, request, response)
        except dedup.DedupError as error:
            print(f"not judged, kept: {request.url}: {error}", file=sys.stderr)
            return
        request.user_data["dedup"] = {"status": verdict.status, "of": verdict.of}
        if verdict.status == "near_duplicate" and mode == "skip":
            print(f"drop  {request.url}: near-duplicate of {verdict.of}")
            raise ContextPipelineInterruptedError

        async def finish():  # after the handler
            done = request.state is RequestState.DONE
            await (detector.insert(verdict) if done else detector.release(verdict))

        if verdict.token:
            context.register_deferred_cleanup(finish)


async def main(url, mode="skip"):
    """Follow every link of one site."""
    crawler = ParselCrawler(storage_client=MemoryStorageClient())

    @crawler.router.default_handler
    async def handle(context):
        print(f"keep  {context.request.url}: {context.request.user_data.get('dedup')}")
        await context.enqueue_links()

    async with dedup.open_async("store") as detector:
        deduplicate(crawler, detector, mode)
        await crawler.run([url])


if len(sys.argv) not in {2, 3} or sys.argv[2:] not in ([], ["skip"], ["tag"]):
    sys.exit("usage: python examples/crawlee_crawl.py URL [skip|tag]")
asyncio.run(main(*sys.argv[1:]))
