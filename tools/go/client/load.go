package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	gubernator "github.com/gubernator-io/gubernator/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

const (
	// Keys that the load asks for, plain and GLOBAL.
	plainKeys  = 300
	globalKeys = 30
	// Longest wait of a caller.
	loadPatience = 2 * time.Second
	// Failures told one by one; the rest is only counted.
	failuresTold = 50
)

// A failed call or item, and who answered.
type failure struct {
	Asked string `json:"asked"`
	Text  string `json:"text"`
}

// What happened since the last report.
type tally struct {
	Calls    int       `json:"calls"`
	Failed   int       `json:"failed"`
	Failures []failure `json:"failures"`
	Granted  int       `json:"granted"`
	Degraded int       `json:"degraded"`
}

// load asks a cluster as a service does that knows all of its nodes: one connection pool, calls in turn to the
// nodes that are connected, at a fixed rate whatever comes back. Each line on standard input is answered by one
// line of JSON: the tally since the line before. It ends with the input.
func load(perSecond string, addresses []string) error {
	rate, err := strconv.Atoi(perSecond)
	if err != nil || rate < 1 {
		return fmt.Errorf("not a rate per second: %q", perSecond)
	}
	nodes := manual.NewBuilderWithScheme("nodes")
	var state resolver.State
	for _, address := range addresses {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: address})
	}
	nodes.InitialState(state)
	conn, err := grpc.NewClient("nodes:///all",
		grpc.WithResolvers(nodes),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
	)
	if err != nil {
		return err
	}
	defer conn.Close()
	client := gubernator.NewV1Client(conn)

	var (
		mutex sync.Mutex
		now   tally
		calls sync.WaitGroup
	)
	stop := make(chan struct{})
	go func() {
		ticker := time.NewTicker(time.Second / time.Duration(rate))
		defer ticker.Stop()
		for number := 0; ; number++ {
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
			calls.Add(1)
			go func() {
				defer calls.Done()
				asked, answer, err := ask(client, number)
				mutex.Lock()
				defer mutex.Unlock()
				now.count(asked, answer, err)
			}()
		}
	}()

	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		mutex.Lock()
		told, err := json.Marshal(&now)
		now = tally{}
		mutex.Unlock()
		if err != nil {
			return err
		}
		fmt.Println(string(told))
	}
	close(stop)
	calls.Wait()
	return lines.Err()
}

// One call with one item: mostly plain ones, some GLOBAL.
func ask(client gubernator.V1Client, number int) (string, *gubernator.RateLimitResp, error) {
	item := &gubernator.RateLimitReq{
		Name:      "load",
		UniqueKey: fmt.Sprintf("%d-plain", number%plainKeys),
		Hits:      1,
		Limit:     1_000_000_000,
		Duration:  hour,
	}
	if number%10 == 0 {
		item.UniqueKey = fmt.Sprintf("%d-global", number/10%globalKeys)
		item.Behavior = gubernator.Behavior_GLOBAL
	}
	ctx, cancel := context.WithTimeout(context.Background(), loadPatience)
	defer cancel()
	var from peer.Peer
	resp, err := client.GetRateLimits(ctx,
		&gubernator.GetRateLimitsReq{Requests: []*gubernator.RateLimitReq{item}}, grpc.Peer(&from))
	asked := ""
	if from.Addr != nil {
		asked = from.Addr.String()
	}
	if err != nil {
		return asked, nil, err
	}
	if len(resp.Responses) != 1 {
		return asked, nil, fmt.Errorf("%d answers to 1 item", len(resp.Responses))
	}
	return asked, resp.Responses[0], nil
}

func (t *tally) count(asked string, answer *gubernator.RateLimitResp, err error) {
	t.Calls++
	text := ""
	switch {
	case err != nil:
		text = err.Error()
	case answer.Error != "":
		text = answer.Error
	case answer.Status == gubernator.Status_OVER_LIMIT:
		text = "OVER_LIMIT of a limit that nobody reaches"
	default:
		t.Granted++
		if answer.Metadata["degraded"] != "" {
			t.Degraded++
		}
		return
	}
	t.Failed++
	if len(t.Failures) < failuresTold {
		t.Failures = append(t.Failures, failure{Asked: asked, Text: text})
	}
}
