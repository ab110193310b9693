// An A2A agent that reports its tool calls, without any library: `go run agent.go`.
package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

const uri = "https://arksim.arklex.ai/a2a/tool-call-capture/v1"

type object = map[string]any

type work struct {
	context string
	calls   []object
}

var tasks sync.Map // work by task id

func lookUp(order string) object { return object{"order": order, "status": "shipped"} }

func (done *work) lookUp(order string) object {
	result := lookUp(order)
	text, _ := json.Marshal(result)
	call := object{"id": newID(), "name": "look_up", "arguments": object{"order_id": order}, "result": string(text)}
	done.calls = append(done.calls, call)
	return result
}

func (done work) task(id string, asked bool) object {
	artifact := object{"artifactId": "answer", "parts": []object{{"text": "It is shipped."}}}
	if asked {
		artifact["extensions"] = []string{uri}
		artifact["metadata"] = object{uri + "/tool_calls": done.calls}
	}
	status := object{"state": "TASK_STATE_COMPLETED"}
	return object{"id": id, "contextId": done.context, "status": status, "artifacts": []object{artifact}}
}

func main() {
	http.HandleFunc("/.well-known/agent-card.json", func(w http.ResponseWriter, r *http.Request) {
		answer(w, object{
			"name": "Orders", "description": "Knows orders", "version": "1",
			"supportedInterfaces": []object{{"url": "http://127.0.0.1:9999/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}},
			"capabilities":        object{"extensions": []object{{"uri": uri, "description": "Reports tool calls"}}},
			"defaultInputModes":   []string{"text/plain"}, "defaultOutputModes": []string{"text/plain"},
			"skills": []object{{"id": "status", "name": "Status", "description": "Where an order is", "tags": []string{"orders"}}},
		})
	})
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ID     any
			Method string
			Params struct {
				ID      string
				Message struct{ ContextID string }
			}
		}
		if json.NewDecoder(r.Body).Decode(&call) != nil {
			answer(w, object{"jsonrpc": "2.0", "id": nil, "error": object{"code": -32700, "message": "not JSON"}})
			return
		}
		reply, asked := object{"jsonrpc": "2.0", "id": call.ID}, asks(r.Header)
		switch call.Method {
		case "SendMessage":
			done := work{context: call.Params.Message.ContextID}
			if done.context == "" {
				done.context = newID()
			}
			done.lookUp("ORD-1001")
			id := newID()
			tasks.Store(id, done)
			reply["result"] = object{"task": done.task(id, asked)}
		case "GetTask":
			if done, found := tasks.Load(call.Params.ID); found {
				reply["result"] = done.(work).task(call.Params.ID, asked)
			} else {
				reply["error"] = object{"code": -32001, "message": "task not found"}
			}
		default:
			reply["error"] = object{"code": -32601, "message": "method not found"}
		}
		answer(w, reply)
	})
	panic(http.ListenAndServe("127.0.0.1:9999", nil))
}

func asks(header http.Header) bool {
	for _, listed := range strings.Split(strings.Join(header.Values("A2A-Extensions"), ","), ",") {
		if strings.TrimSpace(listed) == uri {
			return true
		}
	}
	return false
}

func newID() string {
	bytes := make([]byte, 16)
	rand.Read(bytes)
	return fmt.Sprintf("%x", bytes)
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(value)
}
