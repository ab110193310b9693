-- Turns of the demo as revision 03cd7de kept them in PostgreSQL (0003), without the tables of its job engine.
CREATE TABLE public.a2a_eval_proxy_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.conversations (
    key text NOT NULL,
    run text NOT NULL,
    conversation_id text NOT NULL,
    case_id text NOT NULL,
    turns integer NOT NULL,
    evaluations text NOT NULL,
    passed integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    errored integer DEFAULT 0 NOT NULL,
    skipped integer DEFAULT 0 NOT NULL
);
CREATE TABLE public.judge_answers (
    key text NOT NULL,
    entry text NOT NULL,
    kept_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE public.turns (
    seq bigint NOT NULL,
    turn_id text NOT NULL,
    run text NOT NULL,
    case_id text,
    conversation_id text NOT NULL,
    status text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    body text NOT NULL,
    evaluations text DEFAULT '[]'::text NOT NULL,
    passed integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    errored integer DEFAULT 0 NOT NULL,
    skipped integer DEFAULT 0 NOT NULL,
    version integer DEFAULT 0 NOT NULL,
    stored_at timestamp with time zone DEFAULT now() NOT NULL,
    job_id bigint
);
COMMENT ON COLUMN public.turns.version IS 'how often its results were written';
COMMENT ON COLUMN public.turns.job_id IS 'the job of the workers that scores it, where one does';
ALTER TABLE public.turns ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.turns_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
INSERT INTO public.a2a_eval_proxy_version VALUES ('0003');
INSERT INTO public.judge_answers VALUES ('0000000000000000000000000000000000000000000000000000000000000000', '{"value": {"passed": true}, "model": "sample"}', '2026-11-22 12:59:56.523117+00');
INSERT INTO public.turns OVERRIDING SYSTEM VALUE VALUES (1, '01a202db6fe75f665afd3c9a83e7126b', 'demo', 'order-status', 'ce9f5c02-c5e1-40fb-acdb-6a7f59ebd564', 'done', '2026-11-22 10:44:25.191222+00', '2026-11-22 10:44:25.22714+00', '{"turn_id":"01a202db6fe75f665afd3c9a83e7126b","run":"demo","case_id":"order-status","conversation_id":"ce9f5c02-c5e1-40fb-acdb-6a7f59ebd564","task_id":"090e1d90-ac07-49d8-aab6-a7defc54e0fb","agent":"http://127.0.0.1:44567","binding":"JSONRPC","protocol_version":"1.0","state":"TASK_STATE_COMPLETED","status":"pending","user_text":"Where is order ORD-1001?","response_text":"Order ORD-1001 is shipped. It holds 1 x Gooseneck kettle.","started_at":"2026-11-22T10:44:25.191222Z","first_event_at":"2026-11-22T10:44:25.209510Z","ended_at":"2026-11-22T10:44:25.227140Z","trace_id":"49950bb7b9c4591caeb5928c39357e30","tool_calls":[{"id":"call-d54b776a897d4c15958f6017fd10b717","name":"lookup_order","arguments":{"order_id":"ORD-1001"},"result":"{\"order_id\": \"ORD-1001\", \"customer_id\": \"C-1\", \"placed_on\": \"2026-10-29\", \"status\": \"shipped\", \"address\": \"12 Harbour Street, Malmo\", \"tracking_number\": \"TRK-77120\", \"delivered_on\": null, \"lines\": [{\"sku\": \"KET-01\", \"name\": \"Gooseneck kettle\", \"quantity\": 1, \"price_eur\": 59.0}], \"total_eur\": 59.0}","error":null,"source":"a2a_protocol"}],"capture":{"declared":true,"requested_by_client":false,"snapshot_seen":false,"sources":{"a2a_protocol":1},"matched_by_id":0,"matched_by_signature":0,"protocol_only":1,"trace_only":0},"findings":[]}', '[{"evaluator":"tool_trajectory","score":1.0,"passed":true,"threshold":1.0,"reason":"in_order: 1 of 1 expected call matched, 1 call made.","details":{"mode":"in_order","matched":[{"name":"lookup_order","expected":1,"actual":1}],"missing":[],"extra":[],"near_misses":[]},"status":"passed","label":null,"scale":[0.0,1.0],"version":"1"},{"evaluator":"tool_call_args","score":1.0,"passed":true,"threshold":1.0,"reason":"1 of 1 expected call made with the expected arguments.","details":{"lookup_order_0":{"expected":{"order_id":"ORD-1001"},"actual":{"order_id":"ORD-1001"},"score":1.0},"matched":[{"name":"lookup_order","expected":1,"actual":1}],"missing":[],"extra":[],"near_misses":[]},"status":"passed","label":null,"scale":[0.0,1.0],"version":"1"},{"evaluator":"tool_error","score":1.0,"passed":true,"threshold":1.0,"reason":"1 of 1 call succeeded.","details":{"failed":[]},"status":"passed","label":null,"scale":[0.0,1.0],"version":"1"}]', 3, 0, 0, 0, 1, '2026-11-22 12:59:56.523542+00', NULL);
INSERT INTO public.turns OVERRIDING SYSTEM VALUE VALUES (2, '01a202db7013dc286ec592072541e3ba', 'demo', 'delivery-date', '2d56b9a3-d047-4a01-b3dd-3dafaed01920', 'done', '2026-11-22 10:44:25.234927+00', '2026-11-22 10:44:25.252223+00', '{"turn_id":"01a202db7013dc286ec592072541e3ba","run":"demo","case_id":"delivery-date","conversation_id":"2d56b9a3-d047-4a01-b3dd-3dafaed01920","task_id":"245e86d0-6c19-410b-a77f-c943aa0d0241","agent":"http://127.0.0.1:44567","binding":"JSONRPC","protocol_version":"1.0","state":"TASK_STATE_COMPLETED","status":"pending","user_text":"When will order ORD-1001 arrive?","response_text":"Nordpost has your parcel. Order ORD-1001 arrives on 2026-11-04.","started_at":"2026-11-22T10:44:25.234927Z","first_event_at":"2026-11-22T10:44:25.243115Z","ended_at":"2026-11-22T10:44:25.252223Z","trace_id":"7e24b4408b1644dd1b1644039bc38ad0","tool_calls":[{"id":"call-e12fd7c3993b4aaba34e27aca3be7ce8","name":"lookup_order","arguments":{"order_id":"ORD-1001"},"result":"{\"order_id\": \"ORD-1001\", \"customer_id\": \"C-1\", \"placed_on\": \"2026-10-29\", \"status\": \"shipped\", \"address\": \"12 Harbour Street, Malmo\", \"tracking_number\": \"TRK-77120\", \"delivered_on\": null, \"lines\": [{\"sku\": \"KET-01\", \"name\": \"Gooseneck kettle\", \"quantity\": 1, \"price_eur\": 59.0}], \"total_eur\": 59.0}","error":null,"source":"a2a_protocol"},{"id":"call-132ab0dabe674ca592d08c252c9fe862","name":"estimate_delivery","arguments":{"tracking_number":"TRK-77120"},"result":"{\"tracking_number\": \"TRK-77120\", \"carrier\": \"Nordpost\", \"arrives_on\": \"2026-11-04\"}","error":null,"source":"a2a_protocol"}],"capture":{"declared":true,"requested_by_client":false,"snapshot_seen":false,"sources":{"a2a_protocol":2},"matched_by_id":0,"matched_by_signature":0,"protocol_only":2,"trace_only":0},"findings":[]}', '[{"evaluator":"tool_trajectory","score":1.0,"passed":true,"threshold":1.0,"reason":"in_order: 2 of 2 expected calls matched, 2 calls made.","details":{"mode":"in_order","matched":[{"name":"lookup_order","expected":1,"actual":1},{"name":"estimate_delivery","expected":2,"actual":2}],"missing":[],"extra":[],"near_misses":[]},"status":"passed","label":null,"scale":[0.0,1.0],"version":"1"},{"evaluator":"tool_call_args","score":1.0,"passed":true,"threshold":1.0,"reason":"2 of 2 expected calls made with the expected arguments.","details":{"lookup_order_0":{"expected":{"order_id":"ORD-1001"},"actual":{"order_id":"ORD-1001"},"score":1.0},"estimate_delivery_0":{"expected":{"tracking_number":"TRK-77120"},"actual":{"tracking_number":"TRK-77120"},"score":1.0},"matched":[{"name":"lookup_order","expected":1,"actual":1},{"name":"estimate_delivery","expected":2,"actual":2}],"missing":[],"extra":[],"near_misses":[]},"status":"passed","label":null,"scale":[0.0,1.0],"version":"1"},{"evaluator":"tool_error","score":1.0,"passed":true,"threshold":1.0,"reason":"2 of 2 calls succeeded.","details":{"failed":[]},"status":"passed","label":null,"scale":[0.0,1.0],"version":"1"}]', 3, 0, 0, 0, 1, '2026-11-22 12:59:56.607218+00', NULL);
INSERT INTO public.turns OVERRIDING SYSTEM VALUE VALUES (3, '01a202db702bb57594f40257239d330b', 'demo', 'list-orders', '4a47aa7b-36df-44de-bea3-335469372a7d', 'done', '2026-11-22 10:44:25.259184+00', '2026-11-22 10:44:25.274438+00', '{"turn_id":"01a202db702bb57594f40257239d330b","run":"demo","case_id":"list-orders","conversation_id":"4a47aa7b-36df-44de-bea3-335469372a7d","task_id":"701b91d8-5d78-4774-ab6d-8bed3e9a0904","agent":"http://127.0.0.1:44567","binding":"JSONRPC","protocol_version":"1.0","state":"TASK_STATE_COMPLETED","status":"pending","user_text":"Which orders does ada@example.com have?","response_text":"Ada Lindqvist has these orders: ORD-1001 (shipped), ORD-1002 (delivered).","started_at":"2026-11-22T10:44:25.259184Z","first_event_at":"2026-11-22T10:44:25.266582Z","ended_at":"2026-11-22T10:44:25.274438Z","trace_id":"620a036b981807f07ff0f64ee234fb25","tool_calls":[{"id":"call-8e964e66e09a456f88d3452dbb28d520","name":"find_customer","arguments":{"email":"ada@example.com"},"result":"{\"customer_id\": \"C-1\", \"name\": \"Ada Lindqvist\", \"email\": \"ada@example.com\"}","error":null,"source":"a2a_protocol"},{"id":"call-bbc97ad6da6b46c39ec63ebaf4aee2bc","name":"list_orders","arguments":{"customer_id":"C-1"},"result":"{\"orders\": [{\"order_id\": \"ORD-1001\", \"placed_on\": \"2026-10-29\", \"status\": \"shipped\"}, {\"order_id\": \"ORD-1002\", \"placed_on\": \"2026-10-12\", \"status\": \"delivered\"}]}","error":null,"source":"a2a_protocol"}],"capture":{"declared":true,"requested_by_client":false,"snapshot_seen":false,"sources":{"a2a_protocol":2},"matched_by_id":0,"matched_by_signature":0,"protocol_only":2,"trace_only":0},"findings":[]}', '[{"evaluator":"tool_trajectory","score":1.0,"passed":true,"threshold":1.0,"reason":"in_order: 2 of 2 expected calls matched, 2 calls made.","details":{"mode":"in_order","matched":[{"name":"find_customer","expected":1,"actual":1},{"name":"list_orders","expected":2,"actual":2}],"missing":[],"extra":[],"near_misses":[]},"status":"passed","label":null,"scale":[0.0,1.0],"version":"1"},{"evaluator":"tool_call_args","score":1.0,"passed":true,"threshold":1.0,"reason":"2 of 2 expected calls made with the expected arguments.","details":{"find_customer_0":{"expected":{"email":"ada@example.com"},"actual":{"email":"ada@example.com"},"score":1.0},"list_orders_0":{"expected":{"customer_id":"C-1"},"actual":{"customer_id":"C-1"},"score":1.0},"matched":[{"name":"find_customer","expected":1,"actual":1},{"name":"list_orders","expected":2,"actual":2}],"missing":[],"extra":[],"near_misses":[]},"status":"passed","label":null,"scale":[0.0,1.0],"version":"1"},{"evaluator":"tool_error","score":1.0,"passed":true,"threshold":1.0,"reason":"2 of 2 calls succeeded.","details":{"failed":[]},"status":"passed","label":null,"scale":[0.0,1.0],"version":"1"}]', 3, 0, 0, 0, 1, '2026-11-22 12:59:56.607218+00', NULL);
INSERT INTO public.turns OVERRIDING SYSTEM VALUE VALUES (4, '01a202db703cd5b56fbfa4a5fc841c16', 'demo', 'in-stock', '7c8683e0-2070-4dd0-b7db-bb6c05cb082e', 'done', '2026-11-22 10:44:25.275856+00', '2026-11-22 10:44:25.297904+00', '{"turn_id":"01a202db703cd5b56fbfa4a5fc841c16","run":"demo","case_id":"in-stock","conversation_id":"7c8683e0-2070-4dd0-b7db-bb6c05cb082e","task_id":"7ebc0336-2ca8-4eb8-a857-a8ef486b4cb3","agent":"http://127.0.0.1:44567","binding":"JSONRPC","protocol_version":"1.0","state":"TASK_STATE_COMPLETED","status":"pending","user_text":"Do you have a kettle?","response_text":"The Gooseneck kettle costs 59.00 EUR. It is in stock.","started_at":"2026-11-22T10:44:25.275856Z","first_event_at":"2026-11-22T10:44:25.288748Z","ended_at":"2026-11-22T10:44:25.297904Z","trace_id":"9e0dd852a2dd7acec605dddf566bb97a","tool_calls":[{"id":"call-3a07af99c6bc4c96b286ac7fed7ce631","name":"search_products","arguments":{"query":"kettle"},"result":"{\"products\": [{\"sku\": \"KET-01\", \"name\": \"Gooseneck kettle\", \"price_eur\": 59.0}]}","error":null,"source":"a2a_protocol"},{"id":"call-087f0b7c208b43be8c17edf8b78a39d0","name":"check_stock","arguments":{"sku":"KET-01"},"result":"{\"sku\": \"KET-01\", \"in_stock\": 12, \"restock_on\": null}","error":null,"source":"a2a_protocol"}],"capture":{"declared":true,"requested_by_client":false,"snapshot_seen":false,"sources":{"a2a_protocol":2},"matched_by_id":0,"matched_by_signature":0,"protocol_only":2,"trace_only":0},"findings":[]}', '[{"evaluator":"tool_trajectory","score":1.0,"passed":true,"threshold":1.0,"reason":"in_order: 2 of 2 expected calls matched, 2 calls made.","details":{"mode":"in_order","matched":[{"name":"search_products","expected":1,"actual":1},{"name":"check_stock","expected":2,"actual":2}],"missing":[],"extra":[],"near_misses":[]},"status":"passed","label":null,"scale":[0.0,1.0],"version":"1"},{"evaluator":"tool_call_args","score":1.0,"passed":true,"threshold":1.0,"reason":"2 of 2 expected calls made with the expected arguments.","details":{"search_products_0":{"expected":{"query":"kettle"},"actual":{"query":"kettle"},"score":1.0},"check_stock_0":{"expected":{"sku":"KET-01"},"actual":{"sku":"KET-01"},"score":1.0},"matched":[{"name":"search_products","expected":1,"actual":1},{"name":"check_stock","expected":2,"actual":2}],"missing":[],"extra":[],"near_misses":[]},"status":"passed","label":null,"scale":[0.0,1.0],"version":"1"},{"evaluator":"tool_error","score":1.0,"passed":true,"threshold":1.0,"reason":"2 of 2 calls succeeded.","details":{"failed":[]},"status":"passed","label":null,"scale":[0.0,1.0],"version":"1"}]', 3, 0, 0, 0, 1, '2026-11-22 12:59:56.607218+00', NULL);
SELECT pg_catalog.setval('public.turns_seq_seq', 4, true);
ALTER TABLE ONLY public.a2a_eval_proxy_version
    ADD CONSTRAINT a2a_eval_proxy_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.conversations
    ADD CONSTRAINT conversations_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.judge_answers
    ADD CONSTRAINT judge_answers_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.turns
    ADD CONSTRAINT turns_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY public.turns
    ADD CONSTRAINT turns_turn_id_key UNIQUE (turn_id);
CREATE INDEX conversations_id ON public.conversations USING btree ("left"(conversation_id, 128));
CREATE INDEX conversations_run ON public.conversations USING btree ("left"(run, 128));
CREATE INDEX turns_case ON public.turns USING btree ("left"(case_id, 128), seq) WHERE (case_id IS NOT NULL);
CREATE INDEX turns_conversation ON public.turns USING btree ("left"(conversation_id, 128), seq);
CREATE INDEX turns_pending ON public.turns USING btree (seq) WHERE (status = 'pending'::text);
CREATE INDEX turns_run ON public.turns USING btree ("left"(run, 128), seq);
