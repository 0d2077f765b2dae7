// Command client talks to a running server through the Go client library that Gubernator publishes, the way
// a service that already uses it does: a call, batches, errors, health.
//
//	client ADDRESS
//	client load CALLS_PER_SECOND ADDRESS...
//
// It exits with 0 when every answer was the one a client of Gubernator may rely on, and with 1 and the
// differences otherwise. It gives the same verdict on Gubernator v2.21.0 itself. The load is steady and told
// by line: see load.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	gubernator "github.com/gubernator-io/gubernator/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
)

// Longest wait for one call; only a server that hangs needs it.
const patience = 10 * time.Second

// Limits of the tests last long enough never to end within one.
const hour = 3_600_000

type suite struct {
	client   gubernator.V1Client
	conn     *grpc.ClientConn
	name     string
	problems []string
}

func main() {
	if len(os.Args) > 3 && os.Args[1] == "load" {
		if err := load(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintf(os.Stderr, "load: %v\n", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: client ADDRESS | client load CALLS_PER_SECOND ADDRESS...")
		os.Exit(2)
	}
	address := os.Args[1]
	client, err := gubernator.DialV1Server(address, nil)
	if err != nil {
		fmt.Fprintf(os.Stderr, "DialV1Server(%s): %v\n", address, err)
		os.Exit(1)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Fprintf(os.Stderr, "NewClient(%s): %v\n", address, err)
		os.Exit(1)
	}
	s := &suite{client: client, conn: conn, name: "go-client-" + gubernator.RandomString(8)}
	steps := []struct {
		name string
		run  func(*suite)
	}{
		{"one call", (*suite).oneCall},
		{"scheduled admission", (*suite).scheduled},
		{"batch of 1000", (*suite).batch},
		{"batch of 1001", (*suite).tooMany},
		{"item errors", (*suite).itemErrors},
		{"not protobuf", (*suite).notProtobuf},
		{"message too large", (*suite).tooLarge},
		{"unknown method", (*suite).unknownMethod},
		{"gzip", (*suite).compressed},
		{"caller's deadline", (*suite).deadline},
		{"parallel callers", (*suite).parallel},
		{"health", (*suite).health},
		{"peer service", (*suite).peers},
	}
	failed := 0
	for _, step := range steps {
		s.problems = nil
		step.run(s)
		if len(s.problems) == 0 {
			fmt.Printf("ok   %s\n", step.name)
			continue
		}
		failed++
		for _, problem := range s.problems {
			fmt.Printf("FAIL %s: %s\n", step.name, problem)
		}
	}
	fmt.Printf("%d passed, %d failed\n", len(steps)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func (s *suite) problem(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

func (s *suite) wantCode(what string, err error, code codes.Code, text string) {
	got := status.Convert(err)
	if got.Code() != code || !strings.Contains(got.Message(), text) {
		s.problem("%s: want %v with %q, got %v with %q", what, code, text, got.Code(), got.Message())
	}
}

func (s *suite) item(key string, hits, limit int64) *gubernator.RateLimitReq {
	return &gubernator.RateLimitReq{Name: s.name, UniqueKey: key, Hits: hits, Limit: limit, Duration: hour}
}

func (s *suite) call(items []*gubernator.RateLimitReq, opts ...grpc.CallOption) ([]*gubernator.RateLimitResp, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := s.client.GetRateLimits(ctx, &gubernator.GetRateLimitsReq{Requests: items}, opts...)
	if err != nil {
		return nil, err
	}
	if len(resp.Responses) != len(items) {
		return nil, fmt.Errorf("%d answers to %d items", len(resp.Responses), len(items))
	}
	return resp.Responses, nil
}

// one asks for a single item and reports a failed call.
func (s *suite) one(item *gubernator.RateLimitReq) *gubernator.RateLimitResp {
	answers, err := s.call([]*gubernator.RateLimitReq{item})
	if err != nil {
		s.problem("%s: %v", item.UniqueKey, err)
		return &gubernator.RateLimitResp{Error: "no answer"}
	}
	return answers[0]
}

func (s *suite) want(what string, got *gubernator.RateLimitResp, verdict gubernator.Status, limit, remaining int64) {
	if got.Error != "" || got.Status != verdict || got.Limit != limit || got.Remaining != remaining {
		s.problem("%s: want %v %d/%d, got %v", what, verdict, remaining, limit, got)
	}
}

func (s *suite) oneCall() {
	for algorithm := range gubernator.Algorithm_name {
		key := fmt.Sprintf("one-%d", algorithm)
		ask := func(hits int64) *gubernator.RateLimitResp {
			item := s.item(key, hits, 3)
			item.Algorithm = gubernator.Algorithm(algorithm)
			return s.one(item)
		}
		first := ask(1)
		s.want("first", first, gubernator.Status_UNDER_LIMIT, 3, 2)
		if left := gubernator.FromTimeStamp(first.ResetTime); left <= 0 || left > time.Hour {
			s.problem("reset_time of the first answer is %v away", left)
		}
		s.want("rest", ask(2), gubernator.Status_UNDER_LIMIT, 3, 0)
		s.want("one more", ask(1), gubernator.Status_OVER_LIMIT, 3, 0)
		s.want("given back", ask(-1), gubernator.Status_UNDER_LIMIT, 3, 1)
		s.want("look", ask(0), gubernator.Status_UNDER_LIMIT, 3, 1)
	}
}

func (s *suite) scheduled() {
	ask := func(hits, maxWait int64) *gubernator.RateLimitResp {
		item := s.item("scheduled", hits, 60) // one a minute
		item.Algorithm = gubernator.Algorithm_LEAKY_BUCKET
		item.Burst = 2
		item.MaxWait = maxWait
		return s.one(item)
	}
	s.want("burst", ask(2, 90_000), gubernator.Status_UNDER_LIMIT, 60, 0)
	booked := ask(1, 90_000)
	s.want("booked", booked, gubernator.Status_SCHEDULED, 60, 0)
	if booked.RetryAfter < 50_000 || booked.RetryAfter > 60_000 {
		s.problem("booked for %d ms from now", booked.RetryAfter)
	}
	late := ask(1, 90_000)
	s.want("too late", late, gubernator.Status_OVER_LIMIT, 60, 0)
	if late.RetryAfter < 110_000 || late.RetryAfter > 120_000 {
		s.problem("refused with a wait of %d ms", late.RetryAfter)
	}
	never := ask(3, 90_000)
	if never.Status != gubernator.Status_NEVER_FITS || never.RetryAfter != 0 {
		s.problem("three of two: %v", never)
	}
}

func (s *suite) batch() {
	items := make([]*gubernator.RateLimitReq, 0, 1000)
	for i := range 500 {
		// A key of its own, and one all share: items of one call are applied in their order.
		items = append(items, s.item(fmt.Sprintf("batch-%d", i), 1, int64(i+1)), s.item("batch", 1, 400))
	}
	answers, err := s.call(items)
	if err != nil {
		s.problem("%v", err)
		return
	}
	for i := range 500 {
		s.want(fmt.Sprintf("own key %d", i), answers[2*i], gubernator.Status_UNDER_LIMIT, int64(i+1), int64(i))
		verdict, left := gubernator.Status_UNDER_LIMIT, int64(399-i)
		if left < 0 {
			verdict, left = gubernator.Status_OVER_LIMIT, 0
		}
		s.want(fmt.Sprintf("shared key %d", i), answers[2*i+1], verdict, 400, left)
	}
}

func (s *suite) tooMany() {
	items := make([]*gubernator.RateLimitReq, 1001)
	for i := range items {
		items[i] = s.item("too-many", 1, 2000)
	}
	_, err := s.call(items)
	s.wantCode("1001 items", err, codes.OutOfRange, "Requests.RateLimits list too large; max size is '1000'")
	s.want("nothing was counted", s.one(s.item("too-many", 0, 2000)), gubernator.Status_UNDER_LIMIT, 2000, 2000)
}

func (s *suite) itemErrors() {
	bad := []*gubernator.RateLimitReq{s.item("", 1, 1), s.item("a", 1, 1), s.item("b", 1, 1), s.item("c", 1, 1)}
	bad[1].Name = ""
	bad[2].Algorithm = 7
	bad[3].MaxWait = -1
	answers, err := s.call(append(bad, s.item("item-errors", 1, 5)))
	if err != nil {
		s.problem("%v", err)
		return
	}
	for i, text := range []string{
		"field 'unique_key' cannot be empty",
		"field 'namespace' cannot be empty",
		fmt.Sprintf("Error while apply rate limit for '%s_b': during workerPool.GetRateLimit: Invalid rate limit algorithm '7'", s.name),
		"field 'max_wait' cannot be negative",
	} {
		if answers[i].Error != text {
			s.problem("item %d: want %q, got %q", i, text, answers[i].Error)
		}
	}
	s.want("the good one", answers[4], gubernator.Status_UNDER_LIMIT, 5, 4)
}

// raw sends bytes that the library would never make.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }
func (raw) Unmarshal(d []byte, v any) error { *v.(*[]byte) = d; return nil }
func (raw) Name() string                    { return "proto" }

func (s *suite) invoke(method string, message []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var answer []byte
	return s.conn.Invoke(ctx, method, &message, &answer, grpc.ForceCodec(raw{}))
}

func (s *suite) notProtobuf() {
	for _, message := range [][]byte{{0xff}, {0x0a, 0x05, 0x01}, {0x0a, 0x02, 0x18, 0xff}, []byte("hello")} {
		err := s.invoke(gubernator.V1_GetRateLimits_FullMethodName, message)
		s.wantCode(fmt.Sprintf("%x", message), err, codes.Internal, "grpc: error unmarshalling request")
	}
}

func (s *suite) tooLarge() {
	items := []*gubernator.RateLimitReq{s.item(strings.Repeat("x", 1<<20), 1, 1)}
	_, err := s.call(items)
	s.wantCode("1 MiB", err, codes.ResourceExhausted, "received message larger than max (")
	_, err = s.call(items, grpc.UseCompressor(gzip.Name))
	s.wantCode("1 MiB, compressed", err, codes.ResourceExhausted, "received message after decompression larger than max 1048576")
	s.want("the next call", s.one(s.item("too-large", 1, 5)), gubernator.Status_UNDER_LIMIT, 5, 4)
}

func (s *suite) unknownMethod() {
	err := s.invoke("/pb.gubernator.V1/Nope", nil)
	s.wantCode("method", err, codes.Unimplemented, "unknown method Nope for service pb.gubernator.V1")
	err = s.invoke("/pb.gubernator.V9/Nope", nil)
	s.wantCode("service", err, codes.Unimplemented, "unknown service pb.gubernator.V9")
}

func (s *suite) compressed() {
	answers, err := s.call([]*gubernator.RateLimitReq{s.item("gzip", 1, 5)}, grpc.UseCompressor(gzip.Name))
	if err != nil {
		s.problem("%v", err)
		return
	}
	s.want("gzip", answers[0], gubernator.Status_UNDER_LIMIT, 5, 4)
}

func (s *suite) deadline() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	_, err := s.client.GetRateLimits(ctx, &gubernator.GetRateLimitsReq{})
	s.wantCode("one nanosecond", err, codes.DeadlineExceeded, "deadline exceeded")
}

func (s *suite) parallel() {
	const callers, calls = 20, 25
	var wait sync.WaitGroup
	var lock sync.Mutex
	seen := make(map[int64]int)
	for range callers {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for range calls {
				answers, err := s.call([]*gubernator.RateLimitReq{s.item("parallel", 1, callers*calls)})
				lock.Lock()
				if err != nil {
					s.problem("%v", err)
				} else {
					seen[answers[0].Remaining]++
				}
				lock.Unlock()
			}
		}()
	}
	wait.Wait()
	for left := range int64(callers * calls) {
		if seen[left] != 1 {
			s.problem("%d callers were told %d remaining", seen[left], left)
		}
	}
}

func (s *suite) health() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	health, err := s.client.HealthCheck(ctx, &gubernator.HealthCheckReq{})
	if err != nil {
		s.problem("HealthCheck: %v", err)
		return
	}
	if health.Status != gubernator.Healthy || health.Message != "" || health.PeerCount != 1 ||
		len(health.LocalPeers) != 1 || len(health.RegionPeers) != 0 ||
		health.AdvertiseAddress == "" || health.LocalPeers[0].GrpcAddress != health.AdvertiseAddress {
		s.problem("HealthCheck: %v", health)
	}
	if _, err := s.client.LiveCheck(ctx, &gubernator.LiveCheckReq{}); err != nil {
		s.problem("LiveCheck: %v", err)
	}
}

func (s *suite) peers() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	peers := gubernator.NewPeersV1Client(s.conn)
	items := make([]*gubernator.RateLimitReq, 1001)
	for i := range items {
		items[i] = s.item(fmt.Sprintf("peer-%d", i), 1, int64(i+1))
	}
	_, err := peers.GetPeerRateLimits(ctx, &gubernator.GetPeerRateLimitsReq{Requests: items})
	s.wantCode("1001 items", err, codes.OutOfRange, "'PeerRequest.rate_limits' list too large; max size is '1000'")
	resp, err := peers.GetPeerRateLimits(ctx, &gubernator.GetPeerRateLimitsReq{Requests: items[:1000]})
	if err != nil || len(resp.RateLimits) != 1000 {
		s.problem("1000 items: %v", err)
		return
	}
	for i, answer := range resp.RateLimits {
		s.want(fmt.Sprintf("item %d", i), answer, gubernator.Status_UNDER_LIMIT, int64(i+1), int64(i))
	}
	if _, err := peers.UpdatePeerGlobals(ctx, &gubernator.UpdatePeerGlobalsReq{}); err != nil {
		s.problem("UpdatePeerGlobals: %v", err)
	}
}
