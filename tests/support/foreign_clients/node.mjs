// A page's way with ioredis and node-redis, as they come: port, then a page.
import Redis from "ioredis";
import { createClient } from "redis";

const [port, page] = process.argv.slice(2);

async function way(name, ask, transaction) {
  const ns = `node-${name}`;
  const verdict = await ask("DEDUP.RESERVE", ns, "k", page);
  if (verdict[0] !== "unique") throw new Error(`${name}: ${verdict}`);
  const answers = await transaction([
    ["DEDUP.INSERT", ns, "k", verdict[1]],
    ["DEDUP.PROBE", ns, page],
  ]);
  if (answers[1][0][0] !== "k") throw new Error(`${name}: ${JSON.stringify(answers)}`);
  console.log(`${name} ok`);
}

const io = new Redis({ port: Number(port) });
await way("ioredis", (...words) => io.call(...words), async (commands) => {
  const multi = io.multi();
  for (const words of commands) multi.call(...words);
  return (await multi.exec()).map(([error, answer]) => { if (error) throw error; return answer; });
});
await io.quit();

for (const RESP of [2, 3]) {
  const client = createClient({ url: `redis://127.0.0.1:${port}`, RESP });
  client.on("error", (error) => { throw error; });
  await client.connect();
  await way(`node-redis-${RESP}`, (...words) => client.sendCommand(words), async (commands) => {
    const multi = client.multi();
    for (const words of commands) multi.addCommand(words);
    return multi.exec();
  });
  await client.quit();
}
