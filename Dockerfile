# The table service, or any other `dedup` command: docker build -t crawl-dedup .
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /src

FROM python:3.13-slim
COPY --from=build /wheels /wheels
RUN wheel=$(ls /wheels/*.whl) \
    && pip install --no-cache-dir "$wheel[service,kafka,scrapy,cli,worker]" \
    && rm -rf /wheels \
    && useradd --uid 10001 --create-home dedup \
    && install -d -o dedup -g dedup /var/lib/dedup
USER dedup
WORKDIR /home/dedup
VOLUME /var/lib/dedup
EXPOSE 7700 7780
ENTRYPOINT ["dedup"]
CMD ["serve", "--path", "/var/lib/dedup"]
