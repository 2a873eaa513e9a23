#if Postgres
import ConvoySharedQueue
import ConvoySupport
import Foundation

/// The tables of a shared queue in PostgreSQL, and the steps that migrate them to later versions.
///
/// Steps are never removed. A step may add tables, indexes, and columns with defaults. Earlier versions keep working
/// with these, because all statements name their columns. A step that breaks earlier versions declares this with its
/// `minimum`.
enum PostgresSchema {
    /// A step from one version to the next.
    struct Step {
        let sql: String
        /// The earliest version that works with the tables after this step.
        let minimum: Int64
    }

    static let steps = [
        Step(
            sql: """
                CREATE TABLE entry (
                    sequence bigint GENERATED ALWAYS AS IDENTITY, id uuid PRIMARY KEY, state smallint NOT NULL,
                    kind smallint NOT NULL, host text NOT NULL, tag text NOT NULL, lane text COLLATE "C" NOT NULL,
                    place bigint NOT NULL, due bigint NOT NULL, deadline bigint, open integer NOT NULL,
                    failed integer NOT NULL, policy smallint NOT NULL, forgiven smallint NOT NULL,
                    priority smallint NOT NULL, attempts integer NOT NULL, attempt_limit bigint NOT NULL,
                    sends_again smallint NOT NULL, lease bigint NOT NULL, worker uuid, status integer, size bigint,
                    error text, kept bigint, expires bigint, changed bigint NOT NULL, enqueued bigint NOT NULL, batch text,
                    unique_key text, begun smallint NOT NULL
                ) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
                CREATE INDEX entry_ready ON entry (lane, place, sequence) WHERE state = 2;
                CREATE INDEX entry_due ON entry (due) WHERE state IN (0, 4);
                CREATE INDEX entry_worker ON entry (worker) WHERE state = 3;
                CREATE INDEX entry_leased_host ON entry (host) WHERE state = 3;
                CREATE INDEX entry_deadline ON entry (deadline) WHERE deadline IS NOT NULL;
                CREATE INDEX entry_expires ON entry (expires) WHERE expires IS NOT NULL;
                CREATE INDEX entry_state ON entry (state, sequence);
                CREATE INDEX entry_sequence ON entry (sequence);
                CREATE INDEX entry_batch ON entry (batch, sequence) WHERE batch IS NOT NULL;
                CREATE UNIQUE INDEX entry_key ON entry (unique_key) WHERE unique_key IS NOT NULL AND state NOT IN (6, 7);
                CREATE TABLE request (
                    id uuid PRIMARY KEY, method text NOT NULL, url text NOT NULL, payload text NOT NULL, body bytea,
                    trace text, mark text);
                CREATE TABLE result (id uuid PRIMARY KEY, head text, digest text, body bytea, place text);
                CREATE TABLE dependency (entry uuid NOT NULL, needed uuid NOT NULL, PRIMARY KEY (entry, needed));
                CREATE INDEX dependency_needed ON dependency (needed);
                CREATE TABLE worker (
                    id uuid PRIMARY KEY, name text NOT NULL, jobs integer NOT NULL, since bigint NOT NULL,
                    seen bigint NOT NULL, until bigint NOT NULL);
                CREATE TABLE host (
                    name text PRIMARY KEY, is_own smallint NOT NULL, jobs integer, rate float8, retry_share float8,
                    tokens float8 NOT NULL, refilled bigint NOT NULL, gate bigint NOT NULL, retries float8 NOT NULL);
                CREATE TABLE queue (id smallint PRIMARY KEY CHECK (id = 0), paused smallint NOT NULL);
                INSERT INTO queue VALUES (0, 0);
                """, minimum: 1),
        Step(sql: "ALTER TABLE host ADD COLUMN failures integer NOT NULL DEFAULT 0", minimum: 1),
        Step(
            sql: """
                CREATE TABLE schedule (
                    name text PRIMARY KEY, cron text, zone text, period bigint, missed text NOT NULL, next bigint NOT NULL,
                    last bigint, template text NOT NULL, body bytea);
                CREATE INDEX schedule_next ON schedule (next);
                \(grants(on: "schedule"))
                """, minimum: 1),
        Step(sql: "UPDATE entry SET expires = NULL WHERE state = 6", minimum: 1),
        Step(
            sql: """
                CREATE TABLE duration (
                    host text NOT NULL, bucket smallint NOT NULL, number bigint NOT NULL, total float8 NOT NULL,
                    seen bigint NOT NULL, PRIMARY KEY (host, bucket));
                \(grants(on: "duration"))
                """, minimum: 1),
    ]

    /// Returns a statement that lets the roles that may use the other tables use a new one.
    private static func grants(on table: String) -> String {
        """
        DO $do$
        DECLARE r record;
        BEGIN
            FOR r IN SELECT grantee, string_agg(privilege_type, ', ') AS privileges
                FROM information_schema.role_table_grants
                WHERE table_schema = current_schema() AND table_name = 'entry' AND grantee <> current_user
                GROUP BY grantee
            LOOP
                EXECUTE format('GRANT %s ON \(table) TO %s', r.privileges,
                    CASE r.grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(r.grantee) END);
            END LOOP;
        END $do$;
        """
    }

    /// Creates missing tables, and configures the connection.
    static func prepare(_ connection: PostgresConnection, _ schema: String) throws(SharedQueueError) {
        guard !schema.isEmpty, schema.utf8.count <= 48,
            schema.utf8.allSatisfy({ ASCII.isDigit($0) || $0 == UInt8(ascii: "_") || (0x61...0x7A).contains($0 | 0x20) })
        else { throw .failed("Invalid schema name: use only letters, digits and underscores.") }
        try connection.detectPooler()
        // Disable sequential scans. Every statement can use an index, but the planner's statistics for a young table
        // are outdated within a minute.
        try connection.configure([
            "search_path TO \(quoted(schema)), pg_temp", "enable_seqscan = off", "jit = off",
            "client_min_messages = warning",
        ])
        if let version = try version(connection, schema) {
            guard version.minimum <= Int64(steps.count) else {
                throw .newerVersion("The tables require version \(version.minimum), but this is version \(steps.count).")
            }
            if version.number >= Int64(steps.count) { return }
        }
        try make(connection, schema)
    }

    private static func make(_ connection: PostgresConnection, _ schema: String) throws(SharedQueueError) {
        try connection.transaction { () throws(SharedQueueError) in
            // Only one process may create or migrate the tables.
            try connection.execute("SELECT pg_advisory_xact_lock(\(lock), hashtext('\(schema)'))")
            let version = try version(connection, schema)?.number ?? 0
            guard version < Int64(steps.count) else { return }
            if version == 0 {
                // With `IF NOT EXISTS`, the server requires the privilege to create schemas even if the schema exists.
                let known = try connection.query(
                    "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1", [.text(schema)])
                if known.isEmpty { try connection.execute("CREATE SCHEMA \(quoted(schema))") }
                try connection.execute(
                    """
                    CREATE TABLE version (number integer NOT NULL, minimum integer NOT NULL);
                    INSERT INTO version VALUES (0, 0);
                    """)
            }
            for step in steps.dropFirst(Int(version)) { try connection.execute(step.sql) }
            let minimum = steps.map(\.minimum).max() ?? 1
            try connection.execute("UPDATE version SET number = \(steps.count), minimum = \(minimum)")
        }
    }

    /// Returns the version of the tables; nil if they do not exist.
    private static func version(
        _ connection: PostgresConnection, _ schema: String
    ) throws(SharedQueueError) -> (number: Int64, minimum: Int64)? {
        let known = try connection.query(
            """
            SELECT has_schema_privilege(schemaname, 'USAGE') FROM pg_catalog.pg_tables
            WHERE schemaname = $1 AND tablename = 'version'
            """, [.text(schema)])
        guard let row = known.first else { return nil }
        // Without this privilege, the schema in the search path is silently ignored.
        guard row.integer(0) == 1 else { throw .denied("The role requires USAGE on the schema \(schema).") }
        let version = try connection.query("SELECT number, minimum FROM version", []).first
        return version.flatMap { row in row.integer(0).flatMap { number in row.integer(1).map { (number, $0) } } }
    }

    /// The number of the advisory lock with which processes of this library exclude each other.
    private static let lock = 0x436E_7679

    static func quoted(_ name: String) -> String { "\"\(name.replacingOccurrences(of: "\"", with: "\"\""))\"" }
}
#endif
