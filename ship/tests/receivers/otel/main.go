// A receiver by the OpenTelemetry collector's own receivers: `main splunk|otlp ADDRESS FILE [CERTIFICATE KEY [CLIENTS]]`
// writes each log record as a line of JSON, before the request is answered. `main partial ADDRESS FILE` reads requests and
// writes answers by OpenTelemetry's own library: it rejects each record whose body ends with a zero, and it answers
// nobody without its token.
package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/splunkhecreceiver"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func line(resource pcommon.Resource, record plog.LogRecord) []byte {
	text, err := json.Marshal(map[string]interface{}{
		"resource": resource.Attributes().AsRaw(), "attributes": record.Attributes().AsRaw(),
		"body": record.Body().AsRaw(), "time": int64(record.Timestamp()), "severity": record.SeverityText(),
		"number": int32(record.SeverityNumber()),
	})
	check(err)
	return append(text, '\n')
}

func writer(out *os.File) consumer.Logs {
	var lock sync.Mutex
	to, err := consumer.NewLogs(func(_ context.Context, logs plog.Logs) error {
		var all []byte
		for _, resource := range logs.ResourceLogs().All() {
			for _, scope := range resource.ScopeLogs().All() {
				for _, record := range scope.LogRecords().All() {
					all = append(all, line(resource.Resource(), record)...)
				}
			}
		}
		lock.Lock()
		defer lock.Unlock()
		_, err := out.Write(all)
		return err
	})
	check(err)
	return to
}

// The configuration that the receiver takes in a file of the collector.
func config(kind, address string, tls []string) (receiver.Factory, map[string]interface{}) {
	http := map[string]interface{}{"endpoint": address}
	if len(tls) >= 2 {
		files := map[string]interface{}{"cert_file": tls[0], "key_file": tls[1]}
		if len(tls) == 3 {
			files["client_ca_file"] = tls[2]
		}
		http["tls"] = files
	}
	if kind == "splunk" {
		return splunkhecreceiver.NewFactory(), http
	}
	protocols := map[string]interface{}{"http": http}
	return otlpreceiver.NewFactory(), map[string]interface{}{"protocols": protocols}
}

// Takes some records, and rejects others.
func partial(to consumer.Logs) http.HandlerFunc {
	return func(answer http.ResponseWriter, asked *http.Request) {
		if asked.URL.Path != "/own/logs" || asked.Header.Get("Authorization") != "Bearer a,b" {
			answer.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, err := io.ReadAll(asked.Body)
		check(err)
		request := plogotlp.NewExportRequest()
		if err := request.UnmarshalProto(body); err != nil {
			answer.WriteHeader(http.StatusBadRequest)
			return
		}
		response, rejected := plogotlp.NewExportResponse(), int64(0)
		logs := request.Logs()
		for _, resource := range logs.ResourceLogs().All() {
			for _, scope := range resource.ScopeLogs().All() {
				scope.LogRecords().RemoveIf(func(record plog.LogRecord) bool {
					refused := strings.HasSuffix(record.Body().Str(), "0")
					if refused {
						rejected++
					}
					return refused
				})
			}
		}
		check(to.ConsumeLogs(context.Background(), logs))
		response.PartialSuccess().SetRejectedLogRecords(rejected)
		response.PartialSuccess().SetErrorMessage("a zero")
		text, err := response.MarshalProto()
		check(err)
		answer.Header().Set("Content-Type", "application/x-protobuf")
		_, err = answer.Write(text)
		check(err)
	}
}

func main() {
	out, err := os.OpenFile(os.Args[3], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check(err)
	if os.Args[1] == "partial" {
		listener, err := net.Listen("tcp", os.Args[2])
		check(err)
		check(os.WriteFile(os.Args[3]+".ready", nil, 0o600))
		log.Fatal(http.Serve(listener, partial(writer(out))))
	}
	factory, values := config(os.Args[1], os.Args[2], os.Args[4:])
	settings := factory.CreateDefaultConfig()
	check(confmap.NewFromStringMap(values).Unmarshal(settings))
	made, err := factory.CreateLogs(context.Background(), receivertest.NewNopSettings(factory.Type()), settings, writer(out))
	check(err)
	var host component.Host = componenttest.NewNopHost()
	check(made.Start(context.Background(), host))
	check(os.WriteFile(os.Args[3]+".ready", nil, 0o600))
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
	check(made.Shutdown(context.Background()))
}
