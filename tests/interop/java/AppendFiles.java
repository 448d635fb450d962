import java.util.ArrayList;
import java.util.List;

import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.DeletionFile;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.RowType;

/** What Java knows of the live files of an append table, and the rows that it reads from each alone. */
final class AppendFiles {

    private AppendFiles() {}

    /**
     * For each file: [bucket, total buckets, name, number of rows, first and last sequence number, level, deleted rows,
     * schema, columns of its stats, minima, maxima, counts of nulls, rows]; numbers are null where they are not known.
     */
    static List<List<Object>> of(FileStoreTable table, IOManager disk) throws Exception {
        List<List<Object>> found = new ArrayList<>();
        for (Split each : table.newReadBuilder().newScan().plan().splits()) {
            DataSplit split = (DataSplit) each;
            for (int i = 0; i < split.dataFiles().size(); i++) {
                DataFileMeta file = split.dataFiles().get(i);
                RowType stored = table.schemaManager().schema(file.schemaId()).logicalRowType();
                List<String> columns =
                        file.valueStatsCols() == null ? stored.getFieldNames() : file.valueStatsCols();
                DeletionFile deleted =
                        split.deletionFiles().isPresent() ? split.deletionFiles().get().get(i) : null;
                List<Object> about = new ArrayList<>();
                about.add(split.bucket());
                about.add(split.totalBuckets());
                about.add(file.fileName());
                about.add(file.rowCount());
                about.add(file.minSequenceNumber());
                about.add(file.maxSequenceNumber());
                about.add(file.level());
                about.add(deleted == null ? null : deleted.cardinality());
                about.add(file.schemaId());
                about.add(columns);
                about.add(values(file.valueStats().minValues(), stored.project(columns)));
                about.add(values(file.valueStats().maxValues(), stored.project(columns)));
                about.add(counts(file));
                List<List<Object>> rows = new ArrayList<>();
                table.newReadBuilder()
                        .newRead()
                        .withIOManager(disk)
                        .createReader(AppendDeletion.one(split, i))
                        .forEachRemaining(row -> rows.add(Values.json(row, table.rowType())));
                about.add(rows);
                found.add(about);
            }
        }
        return found;
    }

    private static List<Object> values(BinaryRow row, RowType type) {
        DataType[] types = type.getFieldTypes().stream().map(DataType::nullable).toArray(DataType[]::new);
        return row.getFieldCount() == 0 ? null : Values.json((InternalRow) row, RowType.of(types));
    }

    private static List<Object> counts(DataFileMeta file) {
        List<Object> found = new ArrayList<>();
        for (int i = 0; i < file.valueStats().nullCounts().size(); i++) {
            found.add(file.valueStats().nullCounts().isNullAt(i) ? null : file.valueStats().nullCounts().getLong(i));
        }
        return found;
    }
}
