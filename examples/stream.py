"""Pages into Kafka, verdicts out of it: python examples/stream.py localhost:9092

dedup worker --kafka localhost:9092 --input example.pages --path store      (meanwhile)
"""

import asyncio
import json
import sys

try:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic
except ModuleNotFoundError:
    sys.exit("aiokafka is missing; run: pip install '.[worker]' in the checkout of crawl-dedup")

STORY = "<article><h1>Bridge reopens</h1><p>" + " ".join(
    "the old bridge over the river reopened on friday after two years of repairs engineers "
    "replaced the northern arch strengthened the piers and laid a new deck for trams cyclists "
    "and people on foot while shops on both banks hope for the return of their customers".split()
)
PAGES = {
    "https://example.org/bridge": f"{STORY}</article><footer>Seen 10 times</footer>",
    "https://example.org/bridge?sid=7f3a": f"{STORY}</article><footer>Seen 11 times</footer>",
    "https://example.org/tram": "<article><p>" + " ".join(f"tram{n} line{n}" for n in range(30)),
}
INPUT = "example.pages"
TOPICS = [INPUT, f"{INPUT}.unique", f"{INPUT}.duplicates"]


async def main(kafka: str) -> None:
    """Write the pages, then print the records of both outputs."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, 1, 1) for topic in TOPICS])
    finally:
        await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=kafka, acks="all") as producer:
        for url, html in PAGES.items():
            value = json.dumps({"url": url, "html": html}).encode()
            await producer.send_and_wait(INPUT, value)
    consumer = AIOKafkaConsumer(*TOPICS[1:], bootstrap_servers=kafka, auto_offset_reset="earliest")
    async with consumer:
        for _ in PAGES:
            record = await consumer.getone()
            verdict = {name: value.decode() for name, value in record.headers}
            why = f" of {verdict['dedup.of']}" if "dedup.of" in verdict else ""
            print(
                f"{record.topic}: {json.loads(record.value)['url']} {verdict['dedup.status']}{why}"
            )


if len(sys.argv) != 2:
    sys.exit("usage: python examples/stream.py HOST:PORT, of a Kafka broker")
asyncio.run(main(sys.argv[1]))
