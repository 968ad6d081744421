// A page's way with Jedis and Lettuce, as they come: port, then a page.
import io.lettuce.core.RedisClient;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.NestedMultiOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.nio.charset.StandardCharsets;
import java.util.List;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.commands.ProtocolCommand;

public class Clients {
    record Word(String text) implements ProtocolCommand, ProtocolKeyword {
        public byte[] getRaw() { return text.getBytes(StandardCharsets.UTF_8); }
        public byte[] getBytes() { return getRaw(); }
        public String name() { return text; }
    }

    public static void main(String[] given) {
        int port = Integer.parseInt(given[0]);
        String page = given[1];

        try (Jedis jedis = new Jedis("127.0.0.1", port)) {
            List<?> verdict = (List<?>) jedis.sendCommand(
                new Word("DEDUP.RESERVE"), "jedis", "k", page);
            String token = new String((byte[]) verdict.get(1), StandardCharsets.UTF_8);
            var transaction = jedis.multi();
            transaction.sendCommand(new Word("DEDUP.INSERT"), "jedis", "k", token);
            List<?> rows = transaction.exec();
            if (rows.size() != 1) throw new IllegalStateException(rows.toString());
            System.out.println("jedis ok");
        }

        RedisClient client = RedisClient.create("redis://127.0.0.1:" + port);
        try (var connection = client.connect()) {
            var utf8 = StringCodec.UTF8;
            var reserve = new CommandArgs<>(utf8).add("lettuce").add("k").add(page);
            List<Object> verdict = connection.sync().dispatch(
                new Word("DEDUP.RESERVE"), new NestedMultiOutput<>(utf8), reserve);
            var insert = new CommandArgs<>(utf8).add("lettuce").add("k").add((String) verdict.get(1));
            connection.sync().dispatch(
                new Word("DEDUP.INSERT"), new io.lettuce.core.output.StatusOutput<>(utf8), insert);
            System.out.println("lettuce ok");
        }
        client.shutdown();
    }
}
