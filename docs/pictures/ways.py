"""Draws the pictures of reservations, the service and Kafka: python docs/pictures/ways.py."""

from tables import Picture


def box(p: Picture, x: float, y: float, width: float, style: str, words: str, note: str) -> None:
    """Draw a part with its name and a note."""
    p.rect(x, y, width, 54, style)
    p.rect(x, y, width, 54)
    p.text(x + width / 2, y + 24, words, "mid")
    p.text(x + width / 2, y + 42, note, "mid small note")


def phases() -> None:
    """Reserve before the callback, insert or release after it."""
    p = Picture("Two phases: reserve, then insert or release", 720, 230)
    box(p, 20, 90, 120, "off", "page", "fingerprinted")
    box(p, 190, 90, 120, "b", "reserve", "atomic")
    p.arrow(140, 117, 190, 117)
    box(p, 380, 20, 150, "d", "near_duplicate", "dropped, original named")
    p.arrow(310, 105, 380, 55)
    box(p, 380, 90, 150, "a", "in flight", "callback, pipelines")
    p.arrow(310, 117, 380, 117)
    p.text(345, 134, "token", "mid small note")
    box(p, 380, 160, 150, "off", "pending", "one like it is in flight")
    p.arrow(310, 129, 380, 180)
    p.arrow(380, 204, 250, 146)
    p.text(296, 204, "asks again", "mid small note")
    box(p, 590, 55, 110, "c", "insert", "it succeeded")
    box(p, 590, 125, 110, "off", "release", "it failed, or expiry")
    p.arrow(530, 110, 590, 84)
    p.arrow(530, 124, 590, 150)
    p.save("ways-phases.svg")


def service() -> None:
    """Spiders of several processes around one service."""
    p = Picture("Several spiders share one table service", 720, 230)
    for y, words in ((20, "spider"), (88, "spider"), (156, "dedup worker")):
        box(p, 20, y, 140, "off", words, "reserve, insert, release")
        p.arrow(160, y + 27, 290, 115 + (y - 88) / 5)
    p.text(225, 50, "RESP", "mid small note")
    box(p, 290, 88, 150, "b", "dedup serve", "pages in flight")
    box(p, 550, 20, 150, "c", "store", "namespace news")
    box(p, 550, 88, 150, "c", "store", "namespace shops")
    box(p, 550, 156, 150, "off", "dashboard, metrics", "HTTP")
    for y in (20, 88, 156):
        p.arrow(440, 115 + (y - 88) / 5, 550, y + 27)
    p.save("ways-service.svg")


def kafka() -> None:
    """The way of an insert event to Kafka, and from there to every service."""
    p = Picture("An accepted page goes to Kafka, and from there to every service", 720, 250)
    box(p, 20, 30, 130, "off", "spider", "DEDUP_SERVICE")
    box(p, 380, 95, 130, "b", "Kafka", "topic dedup.inserts")
    box(p, 570, 30, 130, "a", "service", "view of the topic")
    box(p, 570, 160, 130, "a", "service", "the same documents")
    p.arrow(150, 48, 570, 48)
    p.text(350, 42, "insert", "mid small note")
    p.arrow(570, 70, 510, 105)
    p.text(530, 76, "event", "mid small note")
    p.arrow(510, 117, 620, 84)
    p.arrow(510, 130, 570, 172)
    p.text(
        20,
        240,
        "An insert is acknowledged once Kafka has the event.",
        "note",
    )
    p.save("ways-kafka.svg")


if __name__ == "__main__":
    phases()
    service()
    kafka()
