# The table service, the worker and the tools in one image: docker build -t crawl-dedup .
#
#     docker run -e DEDUP_TOKEN=... -p 127.0.0.1:7700:7700 -v dedup:/data crawl-dedup         the service; without a token it exits
#     docker run crawl-dedup worker --kafka HOST:9092 --input pages --path /data --metrics 0.0.0.0:9470
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
COPY . /src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /src

FROM python:3.13-slim
LABEL org.opencontainers.image.title="crawl-dedup" \
    org.opencontainers.image.description="Near-duplicate detection for web crawlers: table service, worker and tools" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="0.3.0.dev0"
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[service,kafka,scrapy,worker]" && rm -r /wheels \
    && useradd --create-home --uid 1000 dedup && install -d -o dedup /data
COPY examples /examples
USER dedup
WORKDIR /home/dedup
VOLUME /data
EXPOSE 7700 7780 9470
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=5m \
    CMD ["python", "/examples/deploy/healthcheck.py"]
ENTRYPOINT ["dedup"]
CMD ["serve", "--path", "/data", "--listen", "0.0.0.0:7700", "--http", "0.0.0.0:7780"]
