// An A2A agent that reports its tool calls, without any library: `java Agent.java`.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;

public class Agent {
    static final String URI = "https://arksim.arklex.ai/a2a/tool-call-capture/v1";
    static final Map<String, String> CONTEXTS = new ConcurrentHashMap<>(); // by task id

    public static void main(String[] arguments) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 9999), 0);
        server.createContext("/.well-known/agent-card.json", exchange -> answer(exchange, """
            {"name": "Orders", "description": "Knows orders", "version": "1",
             "supportedInterfaces": [{"url": "http://127.0.0.1:9999/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
             "capabilities": {"streaming": false, "extensions": [{"uri": "%s", "description": "Reports tool calls"}]},
             "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
             "skills": [{"id": "status", "name": "Status", "description": "Where an order is", "tags": ["orders"]}]}
            """.formatted(URI)));
        server.createContext("/", exchange -> {
            String body = new String(exchange.getRequestBody().readAllBytes(), "UTF-8");
            String asked = String.join(",", exchange.getRequestHeaders().getOrDefault("A2A-Extensions", List.of()));
            answer(exchange, respond(body, List.of(asked.trim().split("\\s*,\\s*")).contains(URI)));
        });
        server.start();
    }

    static String respond(String body, boolean asked) {
        String id = first(body, "\"id\"\\s*:\\s*(\"[^\"]*\"|\\d+)", "null");
        if (body.contains("\"SendMessage\"")) {
            String task = UUID.randomUUID().toString();
            CONTEXTS.put(task, first(body, "\"contextId\"\\s*:\\s*\"([^\"]+)\"", UUID.randomUUID().toString()));
            return result(id, "{\"task\": " + task(task, asked) + "}");
        }
        for (String task : CONTEXTS.keySet()) {
            if (body.contains("\"GetTask\"") && body.contains(task)) {
                return result(id, task(task, asked));
            }
        }
        int code = body.contains("\"GetTask\"") ? -32001 : -32601;
        return "{\"jsonrpc\": \"2.0\", \"id\": " + id + ", \"error\": {\"code\": " + code + ", \"message\": \"not found\"}}";
    }

    static String task(String task, boolean asked) {
        String calls = """
            , "extensions": ["%s"], "metadata": {"%s/tool_calls": [{"id": "call-1", "name": "look_up",
              "arguments": {"order_id": "ORD-1001"}, "result": "{\\"order\\": \\"ORD-1001\\", \\"status\\": \\"shipped\\"}"}]}
            """.formatted(URI, URI);
        return """
            {"id": "%s", "contextId": "%s", "status": {"state": "TASK_STATE_COMPLETED"},
             "artifacts": [{"artifactId": "answer", "parts": [{"text": "It is shipped."}]%s}]}
            """.formatted(task, CONTEXTS.get(task), asked ? calls : "");
    }

    static String result(String id, String result) {
        return "{\"jsonrpc\": \"2.0\", \"id\": " + id + ", \"result\": " + result + "}";
    }

    static String first(String text, String pattern, String otherwise) {
        var found = Pattern.compile(pattern).matcher(text);
        return found.find() ? found.group(1) : otherwise;
    }

    static void answer(HttpExchange exchange, String json) throws java.io.IOException {
        byte[] bytes = json.getBytes("UTF-8");
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(200, bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }
}
