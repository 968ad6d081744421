"""The files a scan reads: WARC, Parquet, JSON lines and HTML, and in which order."""
