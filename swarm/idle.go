package main

import (
	"net/http"
	"sync"
	"time"

	"coracle.dev/swarm/node"
)

// idle ends a program that is outside of a swarm and has nothing to do for some time.
type idle struct {
	limit  time.Duration
	member *node.Member
	end    func()

	mu       sync.Mutex
	requests int
	timer    *time.Timer
}

func newIdle(limit time.Duration, member *node.Member, end func()) *idle {
	made := &idle{limit: limit, member: member, end: end}
	made.look()
	return made
}

// counted answers requests by another handler; the program is not idle meanwhile.
func (i *idle) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.count(1)
		defer i.count(-1)
		next.ServeHTTP(w, r)
	})
}

func (i *idle) count(more int) {
	i.mu.Lock()
	i.requests += more
	i.mu.Unlock()
	i.look()
}

// look begins to count the time, if the program has nothing to do.
func (i *idle) look() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.timer != nil {
		i.timer.Stop()
	}
	if i.limit > 0 {
		i.timer = time.AfterFunc(i.limit, i.judge)
	}
}

func (i *idle) judge() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.requests == 0 && !i.member.IsMember() {
		i.end()
	}
}
