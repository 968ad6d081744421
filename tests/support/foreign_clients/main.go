// A page's way with go-redis, rueidis and valkey-go, as they come: port, then a page.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"
)

var ctx = context.Background()

func check(name string, err error) {
	if err != nil {
		fmt.Println(name, err)
		os.Exit(1)
	}
}

func main() {
	port, page := os.Args[1], os.Args[2]
	address := "127.0.0.1:" + port

	client := redis.NewClient(&redis.Options{Addr: address})
	verdict, err := client.Do(ctx, "DEDUP.RESERVE", "go-redis", "k", page).Slice()
	check("go-redis", err)
	transaction := client.TxPipeline()
	transaction.Do(ctx, "DEDUP.INSERT", "go-redis", "k", verdict[1])
	probed := transaction.Do(ctx, "DEDUP.PROBE", "go-redis", page)
	_, err = transaction.Exec(ctx)
	check("go-redis", err)
	rows, err := probed.Slice()
	check("go-redis", err)
	if len(rows) != 1 {
		check("go-redis", fmt.Errorf("%v", rows))
	}
	fmt.Println("go-redis ok")

	one, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}})
	check("rueidis", err)
	array, err := one.Do(ctx, one.B().Arbitrary("DEDUP.RESERVE", "rueidis", "k", page).Build()).ToArray()
	check("rueidis", err)
	token, err := array[1].ToString()
	check("rueidis", err)
	check("rueidis", one.Do(ctx, one.B().Arbitrary("DEDUP.INSERT", "rueidis", "k", token).Build()).Error())
	one.Close()
	fmt.Println("rueidis ok")

	two, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{address}})
	check("valkey-go", err)
	found, err := two.Do(ctx, two.B().Arbitrary("DEDUP.RESERVE", "valkey", "k", page).Build()).ToArray()
	check("valkey-go", err)
	token, err = found[1].ToString()
	check("valkey-go", err)
	check("valkey-go", two.Do(ctx, two.B().Arbitrary("DEDUP.INSERT", "valkey", "k", token).Build()).Error())
	two.Close()
	fmt.Println("valkey-go ok")
}
