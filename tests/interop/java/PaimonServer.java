import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.StreamTableScan;
import org.apache.paimon.table.source.TableRead;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.RowType;

/**
 * Does to Paimon tables what it is asked, through Paimon's own Java API. One process serves all tables.
 *
 * <p>A request is a line of JSON on standard input with "do", "warehouse", "table" ("database.table"), perhaps "branch"
 * and "options" (dynamic ones); values as in Values.java, a row with its kind in front:
 *
 * <pre>
 * create   schema (as in a schema file)
 * alter    changes: [["set", option, value], ["add", path, type], ["rename", path, new], ["drop", path],
 *          ["type", path, type], ["null", path, whether], ["comment", path, text], ["move", column, place, beside]];
 *          a path is a list of names; place is FIRST, LAST, AFTER or BEFORE
 * write    rows; perhaps "stream": name: by a writer that stays open under this name, else by a new one
 * close    stream
 * compact  full: true or false; all buckets
 * delete   column, values: rows of an append table, by deletion vectors
 * read     gives rows; perhaps "where": [equal, lessThan, greaterOrEqual, in, isNull or startsWith, column, values]
 * files    of an append table, as in AppendFiles.java
 * changes  first, last: what a streaming reader is given for these snapshots; rows, the snapshot's id in front
 * tag      name; perhaps snapshot
 * branch   name; perhaps tag
 * </pre>
 *
 * The answer is a line: {"rows": [...]} or {"error": text}.
 */
public final class PaimonServer {

    private static final ObjectMapper JSON = new ObjectMapper();

    private final IOManager disk;
    private final Map<String, Writer> streams = new HashMap<>();

    private PaimonServer(IOManager disk) {
        this.disk = disk;
    }

    public static void main(String[] arguments) throws Exception {
        PaimonServer server = new PaimonServer(IOManager.create(arguments[0]));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(JSON.writeValueAsString(server.answer(JSON.readTree(line))));
        }
        System.exit(0);
    }

    private Map<String, Object> answer(JsonNode request) {
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            answer.put("rows", done(request));
        } catch (Throwable error) {
            StringWriter text = new StringWriter();
            error.printStackTrace(new PrintWriter(text));
            answer.put("error", text.toString());
        }
        return answer;
    }

    private List<List<Object>> done(JsonNode request) throws Exception {
        String[] name = request.get("table").asText().split("\\.");
        Identifier table = request.has("branch")
                ? new Identifier(name[0], name[1], request.get("branch").asText())
                : Identifier.create(name[0], name[1]);
        Options options = new Options();
        options.set("warehouse", request.get("warehouse").asText());
        options.set("cache-enabled", "false"); // others write to these tables
        try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(options))) {
            switch (request.get("do").asText()) {
                case "create":
                    catalog.createDatabase(name[0], true);
                    catalog.createTable(table, schema(request.get("schema")), false);
                    return List.of();
                case "alter":
                    catalog.alterTable(table, changes(request.get("changes")), false);
                    return List.of();
                case "close":
                    streams.remove(request.get("stream").asText()).close();
                    return List.of();
                default:
                    return done(request, (FileStoreTable) catalog.getTable(table));
            }
        }
    }

    private List<List<Object>> done(JsonNode request, FileStoreTable stored) throws Exception {
        FileStoreTable table = stored.copy(texts(request.get("options")));
        switch (request.get("do").asText()) {
            case "write":
                write(table, request);
                return List.of();
            case "compact":
                Compaction.compact(table, disk, request.get("full").booleanValue());
                return List.of();
            case "delete":
                Set<Object> values = new LinkedHashSet<>();
                request.get("values").forEach(value -> values.add(value.asText()));
                AppendDeletion.delete(table, request.get("column").asText(), values);
                return List.of();
            case "read":
                return read(table, request.get("where"));
            case "files":
                return AppendFiles.of(table, disk);
            case "changes":
                return changes(table, request.get("first").longValue(), request.get("last").longValue());
            case "tag":
                if (request.has("snapshot")) {
                    table.createTag(request.get("name").asText(), request.get("snapshot").longValue());
                } else {
                    table.createTag(request.get("name").asText());
                }
                return List.of();
            case "branch":
                if (request.has("tag")) {
                    table.createBranch(request.get("name").asText(), request.get("tag").asText());
                } else {
                    table.createBranch(request.get("name").asText());
                }
                return List.of();
            default:
                throw new IllegalArgumentException("unknown request: " + request.get("do"));
        }
    }

    private void write(FileStoreTable table, JsonNode request) throws Exception {
        List<InternalRow> rows = new ArrayList<>();
        for (JsonNode row : request.get("rows")) {
            rows.add(Values.row(row, table.rowType()));
        }
        if (request.has("stream")) {
            String name = request.get("stream").asText();
            if (!streams.containsKey(name)) {
                streams.put(name, new Writer(table, disk));
            }
            try {
                streams.get(name).commit(rows);
            } catch (Exception error) {
                streams.remove(name).close(); // what it knows of the table is not so; a job would begin anew
                throw error;
            }
        } else {
            try (Writer writer = new Writer(table, disk)) {
                writer.commit(rows);
            }
        }
    }

    private List<List<Object>> read(FileStoreTable table, JsonNode where) throws Exception {
        List<List<Object>> found = new ArrayList<>();
        ReadBuilder builder = table.newReadBuilder();
        if (where != null) {
            builder.withFilter(predicate(where, table.rowType()));
        }
        TableRead read = builder.newRead().withIOManager(disk);
        if (where != null) {
            read = read.executeFilter();
        }
        for (Split split : builder.newScan().plan().splits()) {
            collect(read.createReader(split), table.rowType(), found, null);
        }
        return found;
    }

    private static Predicate predicate(JsonNode where, RowType type) {
        PredicateBuilder builder = new PredicateBuilder(type);
        int field = type.getFieldIndex(where.get(1).asText());
        List<Object> values = new ArrayList<>();
        where.get(2).forEach(value -> values.add(Values.value(value, type.getTypeAt(field))));
        switch (where.get(0).asText()) {
            case "equal":
                return builder.equal(field, values.get(0));
            case "lessThan":
                return builder.lessThan(field, values.get(0));
            case "greaterOrEqual":
                return builder.greaterOrEqual(field, values.get(0));
            case "in":
                return builder.in(field, values);
            case "isNull":
                return builder.isNull(field);
            case "startsWith":
                return builder.startsWith(field, values.get(0));
            default:
                throw new IllegalArgumentException("unknown condition: " + where);
        }
    }

    private List<List<Object>> changes(FileStoreTable table, long first, long last) throws Exception {
        Map<String, String> start = new HashMap<>();
        start.put("scan.mode", "from-snapshot");
        start.put("scan.snapshot-id", Long.toString(first));
        FileStoreTable from = table.copyWithoutTimeTravel(start); // with the columns of today
        List<List<Object>> found = new ArrayList<>();
        TableRead read = from.newReadBuilder().newRead().withIOManager(disk);
        StreamTableScan scan = from.newReadBuilder().newStreamScan();
        while (scan.checkpoint() == null || scan.checkpoint() <= last) {
            for (Split split : scan.plan().splits()) {
                collect(read.createReader(split), from.rowType(), found, ((DataSplit) split).snapshotId());
            }
        }
        return found;
    }

    private static void collect(RecordReader<InternalRow> reader, RowType type, List<List<Object>> found, Long snapshot)
            throws Exception {
        reader.forEachRemaining(row -> {
            List<Object> values = Values.json(row, type);
            if (snapshot != null) {
                values.add(0, snapshot);
            }
            found.add(values);
        });
    }

    private static Schema schema(JsonNode json) {
        List<DataField> fields = new ArrayList<>();
        json.get("fields").forEach(field -> fields.add(DataTypeJsonParser.parseDataField(field)));
        List<String> partitions = new ArrayList<>();
        json.get("partitionKeys").forEach(name -> partitions.add(name.asText()));
        List<String> keys = new ArrayList<>();
        json.get("primaryKeys").forEach(name -> keys.add(name.asText()));
        return new Schema(fields, partitions, keys, texts(json.get("options")), null);
    }

    private static Map<String, String> texts(JsonNode json) {
        Map<String, String> found = new HashMap<>();
        if (json != null) {
            json.fields().forEachRemaining(entry -> found.put(entry.getKey(), entry.getValue().asText()));
        }
        return found;
    }

    private static String[] names(JsonNode path) {
        List<String> names = new ArrayList<>();
        path.forEach(name -> names.add(name.asText()));
        return names.toArray(new String[0]);
    }

    private static List<SchemaChange> changes(JsonNode json) {
        List<SchemaChange> found = new ArrayList<>();
        for (JsonNode change : json) {
            String name = change.get(1).asText();
            String[] path = names(change.get(1));
            JsonNode value = change.get(2);
            switch (change.get(0).asText()) {
                case "set":
                    found.add(SchemaChange.setOption(name, value.asText()));
                    break;
                case "add":
                    found.add(SchemaChange.addColumn(path, DataTypeJsonParser.parseDataType(value), null, null));
                    break;
                case "rename":
                    found.add(SchemaChange.renameColumn(path, value.asText()));
                    break;
                case "drop":
                    found.add(SchemaChange.dropColumn(path));
                    break;
                case "type":
                    found.add(SchemaChange.updateColumnType(path, DataTypeJsonParser.parseDataType(value), false));
                    break;
                case "null":
                    found.add(SchemaChange.updateColumnNullability(path, value.booleanValue()));
                    break;
                case "comment":
                    found.add(SchemaChange.updateColumnComment(path, value.asText()));
                    break;
                case "move":
                    SchemaChange.Move.MoveType place = SchemaChange.Move.MoveType.valueOf(value.asText());
                    found.add(SchemaChange.updateColumnPosition(
                            new SchemaChange.Move(path[0], change.has(3) ? change.get(3).asText() : null, place)));
                    break;
                default:
                    throw new IllegalArgumentException("unknown change: " + change);
            }
        }
        return found;
    }
}
