"""Whether Kafka refuses our login: aiokafka says only that it could not connect.

The rule kept here: a broker that does not answer, or not as expected, has refused nothing.
"""

from dedup.wire.kafka.login import KafkaConfig

__all__ = ["login_refused"]

ASK_SECONDS = 5.0


async def login_refused(config: KafkaConfig) -> str | None:
    """Return what a broker says against the user and password, or None if none refuses them."""
    from aiokafka import errors
    from aiokafka.conn import create_conn

    if not config.protocol.startswith("SASL"):
        return None
    options = config.options()
    refusals = (
        errors.AuthenticationFailedError,
        errors.SaslAuthenticationFailed,
        errors.UnsupportedSaslMechanismError,
        errors.IllegalSaslStateError,
    )
    for server in config.bootstrap:
        host, _, port = server.rpartition(":")
        try:
            connection = await create_conn(
                host.strip("[]"),
                int(port),
                client_id=config.client_id,
                request_timeout_ms=int(ASK_SECONDS * 1000),
                ssl_context=options.get("ssl_context"),
                security_protocol=config.protocol,
                sasl_mechanism=config.mechanism,
                sasl_plain_username=config.username,
                sasl_plain_password=config.password,
            )
        except refusals as error:
            return (
                f"Kafka at {server} refuses the login of {config.username!r} by {config.mechanism}: "
                f"{error}. See DEDUP_KAFKA_SASL_USERNAME and DEDUP_KAFKA_SASL_PASSWORD"
            )
        except Exception:  # noqa: S112  (it does not answer: another one may)
            continue
        connection.close()
        return None
    return None
