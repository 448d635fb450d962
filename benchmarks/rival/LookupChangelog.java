import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.StreamWriteBuilder;
import org.apache.paimon.table.sink.TableWrite;
import org.apache.paimon.types.DataTypes;

/**
 * Writes prepared rows into a Paimon table with a lookup changelog, through Paimon's own Java API.
 *
 * <p>A command per line of standard input, TAB between the fields; a line of JSON answers each:
 *
 * <pre>
 * open    MODE  WAREHOUSE  FILE   makes the table; MODE: batch (a writer per commit) or stream (one writer for all
 *                                 commits); FILE: any of those to come, for its columns. Answer: {}
 * commit  FILE                    writes the rows of the file in one commit. Answer: {"seconds": s, "rows": n}
 * close                           Answer: {}
 *
 * file, little endian, as benchmarks/two_groups.py writes it:
 *   rows:i64 columns:i64 width:i64 key:i64[rows] sequence:i64[rows] group:i8[rows] text:u8[columns][rows][width]
 * </pre>
 *
 * Rows are made before a commit's clock starts: what is timed is write, flush, compaction with lookups and commit.
 */
public final class LookupChangelog {

    private static final int GROUPS = 2;

    private LookupChangelog() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        Committing table = null;
        long identifier = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t");
            String answer = "{}";
            if (fields[0].equals("open")) {
                table = open(fields[1].equals("stream"), fields[2], (int) Rows.header(fields[3])[1]);
                identifier = 0;
            } else if (fields[0].equals("commit")) {
                GenericRow[] rows = Rows.read(fields[1]);
                long start = System.nanoTime();
                table.commit(rows, identifier++);
                double seconds = (System.nanoTime() - start) / 1e9;
                answer = String.format(Locale.ROOT, "{\"seconds\": %.6f, \"rows\": %d}", seconds, rows.length);
            } else if (fields[0].equals("close")) {
                table.close();
            } else {
                throw new IllegalArgumentException("unknown command: " + line);
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    private static Committing open(boolean stream, String warehouse, int columns) throws Exception {
        Map<String, String> options = new HashMap<>();
        options.put("bucket", "1");
        options.put("merge-engine", "partial-update");
        options.put("changelog-producer", "lookup");
        options.put("file.format", "parquet");
        options.put("file.compression", "zstd");
        Schema.Builder schema = Schema.newBuilder().column("k", DataTypes.BIGINT().notNull()).primaryKey("k");
        for (int group = 0; group < GROUPS; group++) {
            StringBuilder members = new StringBuilder();
            for (int i = group * columns; i < (group + 1) * columns; i++) {
                schema.column("c" + i, DataTypes.STRING());
                members.append(members.length() == 0 ? "" : ",").append("c").append(i);
            }
            options.put("fields.g" + group + ".sequence-group", members.toString());
        }
        for (int group = 0; group < GROUPS; group++) {
            schema.column("g" + group, DataTypes.BIGINT());
        }
        schema.options(options);
        Identifier name = Identifier.create("bench", "changelog");
        IOManager disk = IOManager.create(Paths.get(warehouse, "lookup").toString());
        org.apache.paimon.fs.Path root = new org.apache.paimon.fs.Path(warehouse);
        try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(root))) {
            catalog.createDatabase("bench", true);
            catalog.createTable(name, schema.build(), false);
            Table table = catalog.getTable(name);
            return stream ? new Stream(table.newStreamWriteBuilder(), disk) : new Batch(table, disk);
        }
    }

    /** Brings rows into the table in one commit, changelog included. */
    private interface Committing extends AutoCloseable {
        void commit(GenericRow[] rows, long identifier) throws Exception;
    }

    /** A new writer for each commit: what a batch job does. */
    private static final class Batch implements Committing {
        private final Table table;
        private final IOManager disk;

        Batch(Table table, IOManager disk) {
            this.table = table;
            this.disk = disk;
        }

        @Override
        public void commit(GenericRow[] rows, long identifier) throws Exception {
            BatchWriteBuilder builder = table.newBatchWriteBuilder();
            try (BatchTableWrite write = builder.newWrite();
                    BatchTableCommit commit = builder.newCommit()) {
                write.withIOManager(disk);
                writeAll(write, rows);
                commit.commit(write.prepareCommit());
            }
        }

        @Override
        public void close() throws Exception {
            disk.close();
        }
    }

    /** One writer, with its lookup files, for all commits: what a streaming job does. */
    private static final class Stream implements Committing {
        private final StreamTableWrite write;
        private final StreamTableCommit commit;
        private final IOManager disk;

        Stream(StreamWriteBuilder builder, IOManager disk) {
            this.write = (StreamTableWrite) builder.newWrite().withIOManager(disk);
            this.commit = builder.newCommit();
            this.disk = disk;
        }

        @Override
        public void commit(GenericRow[] rows, long identifier) throws Exception {
            writeAll(write, rows);
            List<CommitMessage> messages = write.prepareCommit(true, identifier);
            commit.commit(identifier, messages);
        }

        @Override
        public void close() throws Exception {
            write.close();
            commit.close();
            disk.close();
        }
    }

    private static void writeAll(TableWrite write, GenericRow[] rows) throws Exception {
        for (GenericRow row : rows) {
            write.write(row);
        }
    }

    /** The prepared rows of one commit. */
    private static final class Rows {
        private static final int HEADER = 3 * Long.BYTES;

        static long[] header(String file) throws Exception {
            ByteBuffer bytes = map(Paths.get(file));
            return new long[] {bytes.getLong(0), bytes.getLong(Long.BYTES), bytes.getLong(2 * Long.BYTES)};
        }

        static GenericRow[] read(String file) throws Exception {
            long[] header = header(file);
            int n = (int) header[0];
            int columns = (int) header[1];
            int width = (int) header[2];
            ByteBuffer bytes = map(Paths.get(file));
            int sequences = HEADER + n * Long.BYTES;
            int groups = sequences + n * Long.BYTES;
            int texts = groups + n;
            GenericRow[] rows = new GenericRow[n];
            for (int r = 0; r < rows.length; r++) {
                int group = bytes.get(groups + r);
                GenericRow row = new GenericRow(1 + GROUPS * columns + GROUPS);
                row.setField(0, bytes.getLong(HEADER + r * Long.BYTES));
                for (int c = 0; c < columns; c++) {
                    byte[] text = new byte[width];
                    bytes.position(texts + (c * n + r) * width);
                    bytes.get(text);
                    row.setField(1 + group * columns + c, BinaryString.fromBytes(text));
                }
                row.setField(1 + GROUPS * columns + group, bytes.getLong(sequences + r * Long.BYTES));
                rows[r] = row;
            }
            return rows;
        }

        private static ByteBuffer map(Path file) throws Exception {
            try (FileChannel channel = FileChannel.open(file)) {
                return channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size()).order(ByteOrder.LITTLE_ENDIAN);
            }
        }
    }
}
