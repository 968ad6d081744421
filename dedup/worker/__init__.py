"""The worker: pages of a Kafka topic in, the same pages with verdicts out.

    record -> adapters -> fingerprint -> reserve -> unique or duplicates topic -> insert -> commit

Read pipeline.py for the order of the steps that loses nothing, then worker.py.
"""
