// A Crawlee crawl that handles each text once: node crawlee_crawl.mjs URL [SERVICE]
//
// npm install @crawlee/cheerio; `dedup serve` runs on this machine. DEDUP_TOKEN is shown if it is set.
import { CheerioCrawler, Configuration } from '@crawlee/cheerio';

const [start, service = 'http://127.0.0.1:7780'] = process.argv.slice(2);
const ns = 'crawlee';
const token = process.env.DEDUP_TOKEN;

async function ask(path, body) {
    const answer = await fetch(service + path, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', ...(token && { Authorization: `Bearer ${token}` }) },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(2000),
    });
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
    return answer.json();
}

// The verdict on a page; a page that cannot be judged is kept.
async function judge(url, html) {
    try {
        for (let wait = 50; ; wait *= 2) {
            const exempt = wait > 500 ? 'in_flight' : undefined; // a page like it is in flight for long
            const verdict = await ask('/v1/judge', { ns, url, html, exempt });
            if (verdict.status !== 'pending') return verdict;
            await new Promise((resolve) => { setTimeout(resolve, wait); });
        }
    } catch (error) {
        console.error(`not judged, kept: ${url}: ${error.message}`);
        return { status: 'exempt', reason: 'service_away' };
    }
}

async function end(path, { key, token: held }) {
    if (!held) return;
    await ask(path, { ns, items: [{ key, token: held }] }).catch((error) => console.error(`${path}: ${error.message}`));
}

const crawler = new CheerioCrawler({
    async requestHandler({ request, body, enqueueLinks }) {
        const verdict = await judge(request.url, body.toString());
        if (verdict.status === 'near_duplicate') {
            console.log(`drop  ${request.url}: near-duplicate of ${verdict.of}`);
            return;
        }
        try {
            console.log(`keep  ${request.url}: ${verdict.status}`); // your handler
            await enqueueLinks();
        } catch (error) {
            await end('/v1/release', verdict);
            throw error;
        }
        await end('/v1/insert', verdict);
    },
}, new Configuration({ persistStorage: false }));
await crawler.run([start]);
