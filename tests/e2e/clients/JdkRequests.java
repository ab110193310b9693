// The JDK's own HTTP client as it is by default: over plain http it offers every request to upgrade to HTTP/2.
// Usage: java JdkRequests.java URL TIMES, with a request a line on stdin: METHOD PATH BASE64-OF-BODY (or -).
// Prints a line for each: STATUS BASE64-OF-BODY. First one after the other, then all of them TIMES at once.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;

public class JdkRequests {
    public static void main(String[] arguments) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        List<HttpRequest> requests = new ArrayList<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            requests.add(request(arguments[0], line.split(" ")));
        }
        for (HttpRequest request : requests) {
            print(client.send(request, HttpResponse.BodyHandlers.ofByteArray()));
        }
        List<CompletableFuture<HttpResponse<byte[]>>> answers = new ArrayList<>();
        for (int time = 0; time < Integer.parseInt(arguments[1]); time++) {
            for (HttpRequest request : requests) {
                answers.add(client.sendAsync(request, HttpResponse.BodyHandlers.ofByteArray()));
            }
        }
        for (CompletableFuture<HttpResponse<byte[]>> answer : answers) {
            print(answer.get());
        }
    }

    private static HttpRequest request(String url, String[] parts) {
        HttpRequest.BodyPublisher body = parts[2].equals("-")
            ? HttpRequest.BodyPublishers.noBody()
            : HttpRequest.BodyPublishers.ofByteArray(Base64.getDecoder().decode(parts[2]));
        return HttpRequest.newBuilder(URI.create(url + parts[1]))
            .timeout(Duration.ofSeconds(60))
            .header("Content-Type", "application/json")
            .header("A2A-Version", "1.0")
            .method(parts[0], body)
            .build();
    }

    private static void print(HttpResponse<byte[]> response) {
        System.out.println(response.statusCode() + " " + Base64.getEncoder().encodeToString(response.body()));
    }
}
