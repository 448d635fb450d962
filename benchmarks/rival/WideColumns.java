import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;

import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.reader.RecordReaderIterator;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.StreamWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataTypes;

/**
 * Writes ten of many columns into a Paimon table, through Paimon's own Java API, and scans two of them.
 *
 * <pre>
 * arguments: TASK  TABLE  COLUMNS  FILE  CALLS
 *   TASK     "write-only", "inline compaction" or "lookup changelog"
 *   TABLE    the directory of a table to make: WAREHOUSE/DATABASE.db/NAME
 *   COLUMNS  how many nullable BIGINT columns c0, c1, .. it has beside its BIGINT key k
 *   CALLS    how many batches of the file are written, a commit each
 *
 * file, little endian, as benchmarks/wide_columns/sides.py writes it:
 *   rows:i64 batch*    batch = key:i64[rows] c0:i64[rows] .. c9:i64[rows]
 * </pre>
 *
 * The last line that it prints is JSON: {"calls": seconds of each commit, "scan": seconds}. A commit ends when its
 * compaction has ended. A batch is read before the clock of its commit starts. The same task is done before with a
 * table of 20 columns and two batches, so that the code is compiled and its classes are loaded.
 *
 * What makes Java faster is done here:
 *
 * <ul>
 *   <li>One writer makes all commits, as a streaming job does: it keeps its lookup files and its list of files.
 *   <li>One row object is filled again and again: a writer copies what it is given.
 *   <li>The write buffer takes 1 GB and may spill (`write-buffer-spillable` is on by itself). Paimon's documentation
 *       advises both for throughput. From some 300 columns on a batch outgrows the 256 MB that it would have.
 *   <li>Manifests have no statistics of columns. The bounds of keys remain.
 *   <li>The scan is projected to two columns.
 * </ul>
 *
 * What small runs tried, and what is not taken: Avro at level 0 (cheaper writes, dearer scans, and another format than
 * ours), Parquet without dictionaries, the parallel garbage collector, and lookup files without compression (no gain
 * showed). A writer of fewer columns (`withWriteType`) is refused for a table with a primary key: its files have all
 * columns.
 */
public final class WideColumns {

    private static final int WRITTEN = 10;
    private static final int WARM_COLUMNS = 20;
    private static final int WARM_CALLS = 2;
    private static final int[] PROJECTED = {0, 4}; // k and c3

    private static final Map<String, Map<String, String>> TASKS = Map.of(
            "write-only", Map.of("write-only", "true"),
            "inline compaction", Map.of(),
            "lookup changelog", Map.of("changelog-producer", "lookup"));

    private WideColumns() {}

    public static void main(String[] arguments) throws Exception {
        String task = arguments[0];
        Path path = Paths.get(arguments[1]);
        int columns = Integer.parseInt(arguments[2]);
        Batches batches = new Batches(Paths.get(arguments[3]));
        int calls = Integer.parseInt(arguments[4]);
        measure(task, path.resolveSibling("warm"), WARM_COLUMNS, batches, Math.min(calls, WARM_CALLS));
        System.out.println(measure(task, path, columns, batches, calls));
    }

    /** Both measures of a task in a new table, as JSON. */
    private static String measure(String task, Path path, int columns, Batches batches, int calls) throws Exception {
        String database = path.getParent().getFileName().toString();
        Identifier name = Identifier.create(
                database.substring(0, database.length() - ".db".length()), path.getFileName().toString());
        Path warehouse = path.getParent().getParent();
        CatalogContext place = CatalogContext.create(new org.apache.paimon.fs.Path(warehouse.toString()));
        try (Catalog catalog = CatalogFactory.createCatalog(place);
                IOManager disk = IOManager.create(warehouse.resolve("spilled").toString())) {
            catalog.createDatabase(name.getDatabaseName(), true);
            catalog.createTable(name, schema(task, columns), false);
            List<Double> commits = write(catalog.getTable(name), disk, columns, batches, calls);
            double scan = scan(catalog, name, disk);
            String seconds = commits.stream().map(WideColumns::decimal).collect(Collectors.joining(", "));
            return "{\"calls\": [" + seconds + "], \"scan\": " + decimal(scan) + "}";
        }
    }

    private static Schema schema(String task, int columns) {
        Map<String, String> options = new HashMap<>(TASKS.get(task));
        options.put("bucket", "1");
        options.put("merge-engine", "partial-update");
        options.put("file.format", "parquet");
        options.put("file.compression", "zstd");
        options.put("metadata.stats-mode", "none");
        options.put("write-buffer-size", "1 gb");
        Schema.Builder schema = Schema.newBuilder().column("k", DataTypes.BIGINT().notNull()).primaryKey("k");
        for (int i = 0; i < columns; i++) {
            schema.column("c" + i, DataTypes.BIGINT());
        }
        return schema.options(options).build();
    }

    /** Seconds of each commit. */
    private static List<Double> write(Table table, IOManager disk, int columns, Batches batches, int calls)
            throws Exception {
        List<Double> seconds = new ArrayList<>();
        StreamWriteBuilder builder = table.newStreamWriteBuilder();
        try (StreamTableWrite write = (StreamTableWrite) builder.newWrite().withIOManager(disk);
                StreamTableCommit commit = builder.newCommit()) {
            GenericRow row = new GenericRow(1 + columns);
            for (int call = 0; call < calls; call++) {
                Long[][] batch = batches.read(call);
                long start = System.nanoTime();
                for (int r = 0; r < batch[0].length; r++) {
                    for (int c = 0; c < batch.length; c++) {
                        row.setField(c, batch[c][r]);
                    }
                    write.write(row);
                }
                commit.commit(call, write.prepareCommit(true, call));
                seconds.add(secondsSince(start));
            }
        }
        return seconds;
    }

    /** Seconds of opening the table and reading two of its columns. */
    private static double scan(Catalog catalog, Identifier name, IOManager disk) throws Exception {
        long start = System.nanoTime();
        ReadBuilder builder = catalog.getTable(name).newReadBuilder().withProjection(PROJECTED);
        long rows = 0;
        long sum = 0;
        try (RecordReaderIterator<InternalRow> found = new RecordReaderIterator<>(
                builder.newRead().withIOManager(disk).createReader(builder.newScan().plan()))) {
            while (found.hasNext()) {
                InternalRow row = found.next();
                rows++;
                sum += row.getLong(0) + row.getLong(1);
            }
        }
        double seconds = secondsSince(start);
        System.err.println(name + ": " + rows + " rows, sum " + sum); // a sum that nobody sees may be left out
        return seconds;
    }

    private static double secondsSince(long start) {
        return (System.nanoTime() - start) / 1e9;
    }

    private static String decimal(double seconds) {
        return String.format(Locale.ROOT, "%.6f", seconds);
    }

    /** The prepared rows of all commits. */
    private static final class Batches {
        private final LongBuffer longs;
        private final int rows;

        Batches(Path file) throws Exception {
            try (FileChannel channel = FileChannel.open(file)) {
                ByteBuffer bytes = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
                longs = bytes.order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
            }
            rows = (int) longs.get(0);
        }

        /** The key and the written columns of one batch: value[column][row]. */
        Long[][] read(int number) {
            Long[][] batch = new Long[1 + WRITTEN][rows];
            int start = 1 + number * batch.length * rows;
            for (int c = 0; c < batch.length; c++) {
                for (int r = 0; r < rows; r++) {
                    batch[c][r] = longs.get(start + c * rows + r);
                }
            }
            return batch;
        }
    }
}
