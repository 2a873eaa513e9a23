// GETs of one URL: URL COUNT IN_FLIGHT WARM_UP BYTES [AUTHORITY]. With an authority, over one HTTP/2 connection.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return value
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Sec+usage.Stime.Sec) + float64(usage.Utime.Usec+usage.Stime.Usec)/1e6
}

func peakKilobytes() int {
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(status), "\n") {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == "VmHWM:" {
			return number(fields[1])
		}
	}
	return 0
}

func main() {
	url, count, inFlight := os.Args[1], number(os.Args[2]), number(os.Args[3])
	warmUp, bytes := number(os.Args[4]), number(os.Args[5])
	transport := &http.Transport{MaxIdleConns: inFlight, MaxIdleConnsPerHost: inFlight, DisableCompression: true}
	if len(os.Args) > 6 {
		pem, err := os.ReadFile(os.Args[6])
		if err != nil {
			panic(err)
		}
		authorities := x509.NewCertPool()
		authorities.AppendCertsFromPEM(pem)
		transport.TLSClientConfig = &tls.Config{RootCAs: authorities}
		transport.ForceAttemptHTTP2 = true
	}
	client := &http.Client{Transport: transport}
	var failed atomic.Int64
	run := func(total int) {
		var started atomic.Int64
		var group sync.WaitGroup
		for i := 0; i < inFlight; i++ {
			group.Add(1)
			go func() {
				defer group.Done()
				for started.Add(1) <= int64(total) {
					response, err := client.Get(url)
					if err != nil {
						failed.Add(1)
						continue
					}
					body, err := io.ReadAll(response.Body)
					response.Body.Close()
					if err != nil || response.StatusCode != 200 || len(body) != bytes {
						failed.Add(1)
					}
				}
			}()
		}
		group.Wait()
	}
	run(warmUp)
	cpu, start := cpuSeconds(), time.Now()
	run(count)
	report, _ := json.Marshal(map[string]any{
		"seconds": time.Since(start).Seconds(), "cpuSeconds": cpuSeconds() - cpu,
		"peakKilobytes": peakKilobytes(), "failed": failed.Load(),
	})
	fmt.Println(string(report))
}
