-- The sample shop: tables and rows. Dates are fixed, so that the agent gives the same answers every day.
CREATE TABLE customers (
    customer_id TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    email       TEXT NOT NULL UNIQUE
);
CREATE TABLE products (
    sku         TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    price_eur   REAL NOT NULL,
    in_stock    INTEGER NOT NULL,
    restock_on  TEXT
);
CREATE TABLE orders (
    order_id        TEXT PRIMARY KEY,
    customer_id     TEXT NOT NULL REFERENCES customers,
    placed_on       TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('processing', 'shipped', 'delivered', 'cancelled')),
    address         TEXT NOT NULL,
    tracking_number TEXT,
    delivered_on    TEXT
);
CREATE TABLE order_lines (
    order_id  TEXT NOT NULL REFERENCES orders,
    sku       TEXT NOT NULL REFERENCES products,
    quantity  INTEGER NOT NULL
);
CREATE TABLE shipments (
    tracking_number TEXT PRIMARY KEY,
    carrier         TEXT NOT NULL,
    arrives_on      TEXT NOT NULL
);
CREATE TABLE refunds (
    refund_id   TEXT PRIMARY KEY,
    order_id    TEXT NOT NULL UNIQUE REFERENCES orders,
    amount_eur  REAL NOT NULL
);

INSERT INTO customers VALUES
    ('C-1', 'Ada Lindqvist', 'ada@example.com'),
    ('C-2', 'Ben Okafor', 'ben@example.com'),
    ('C-3', 'Chiara Rossi', 'chiara@example.com');
INSERT INTO products VALUES
    ('KET-01', 'Gooseneck kettle', 59.00, 12, NULL),
    ('GRN-02', 'Hand grinder', 89.00, 0, '2026-11-20'),
    ('MUG-03', 'Stoneware mug', 14.50, 140, NULL),
    ('BEA-04', 'Sidamo beans 1 kg', 32.00, 35, NULL),
    ('SCA-05', 'Brew scale', 45.00, 3, NULL),
    ('FIL-06', 'Paper filters, 100 pieces', 6.90, 400, NULL);
INSERT INTO orders VALUES
    ('ORD-1001', 'C-1', '2026-10-29', 'shipped', '12 Harbour Street, Malmo', 'TRK-77120', NULL),
    ('ORD-1002', 'C-1', '2026-10-12', 'delivered', '12 Harbour Street, Malmo', 'TRK-76002', '2026-10-16'),
    ('ORD-1003', 'C-2', '2026-11-01', 'processing', '8 Mill Lane, Leeds', NULL, NULL),
    ('ORD-1004', 'C-2', '2026-08-12', 'delivered', '8 Mill Lane, Leeds', 'TRK-70418', '2026-08-15'),
    ('ORD-1005', 'C-3', '2026-10-20', 'delivered', 'Via Roma 4, Trieste', 'TRK-76611', '2026-10-24'),
    ('ORD-1006', 'C-3', '2026-11-01', 'processing', 'Via Roma 4, Trieste', NULL, NULL);
INSERT INTO order_lines VALUES
    ('ORD-1001', 'KET-01', 1),
    ('ORD-1002', 'MUG-03', 2),
    ('ORD-1003', 'SCA-05', 1),
    ('ORD-1004', 'GRN-02', 1),
    ('ORD-1005', 'BEA-04', 2),
    ('ORD-1006', 'KET-01', 1),
    ('ORD-1006', 'FIL-06', 3);
INSERT INTO shipments VALUES
    ('TRK-77120', 'Nordpost', '2026-11-04'),
    ('TRK-76002', 'Nordpost', '2026-10-16'),
    ('TRK-70418', 'Parcel North', '2026-08-15'),
    ('TRK-76611', 'Corriere Adria', '2026-10-24');
