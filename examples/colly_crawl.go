// A Colly crawl that handles each text once: go run colly_crawl.go URL [SERVICE]
// go get github.com/gocolly/colly/v2; `dedup serve` runs on this machine. DEDUP_TOKEN is shown if it is set.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"github.com/gocolly/colly/v2"
	"net/http"
	"os"
	"time"
)

type Verdict struct{ Status, Key, Token, Of string }

var service = append(os.Args, "http://127.0.0.1:7780")[2] // the second argument, or this
var client = http.Client{Timeout: 2 * time.Second}

func ask(path string, body any) (verdict Verdict) {
	data, _ := json.Marshal(body)
	request, _ := http.NewRequest("POST", service+path, bytes.NewReader(data))
	request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + os.Getenv("DEDUP_TOKEN")}}
	if answer, err := client.Do(request); err == nil {
		defer answer.Body.Close()
		json.NewDecoder(answer.Body).Decode(&verdict) // of an error there is no status
	}
	return
}

func judge(url string, html []byte) (verdict Verdict) {
	page := map[string]string{"ns": "colly", "url": url, "html": string(html)}
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		if verdict = ask("/v1/judge", page); verdict.Status != "pending" {
			return // without a status the service is away: the page is kept
		}
		time.Sleep(wait)
		if wait > time.Second/2 {
			page["exempt"] = "in_flight" // a page like it is in flight for long
		}
	}
}

func main() {
	crawler := colly.NewCollector()
	crawler.OnHTML("html", func(page *colly.HTMLElement) {
		url := page.Request.URL.String()
		verdict := judge(url, page.Response.Body)
		if verdict.Status == "near_duplicate" {
			fmt.Printf("drop  %s: near-duplicate of %s\n", url, verdict.Of)
			return
		}
		fmt.Printf("keep  %s: %s\n", url, verdict.Status) // your code; if it fails, ask /v1/release
		item := map[string]string{"key": verdict.Key, "token": verdict.Token}
		ask("/v1/insert", map[string]any{"ns": "colly", "items": []any{item}})
		page.ForEach("a[href]", func(_ int, link *colly.HTMLElement) { page.Request.Visit(link.Attr("href")) })
	})
	crawler.Visit(os.Args[1])
}
