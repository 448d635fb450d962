import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

import org.apache.paimon.Snapshot;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.deletionvectors.Bitmap64DeletionVector;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.append.BaseAppendDeleteFileMaintainer;
import org.apache.paimon.index.IndexFileHandler;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.reader.FileRecordIterator;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.DataType;

/** Deletes rows of an append table by deletion vectors: what Spark's DELETE does, with Paimon's own writer of vectors. */
final class AppendDeletion {

    private AppendDeletion() {}

    /** Rows whose value in the column prints as one of the texts. */
    static void delete(FileStoreTable table, String column, Set<Object> values) throws Exception {
        IndexFileHandler files = table.store().newIndexFileHandler();
        Snapshot snapshot = table.snapshotManager().latestSnapshot();
        boolean isUnaware = table.bucketMode() == BucketMode.BUCKET_UNAWARE;
        Map<String, BaseAppendDeleteFileMaintainer> maintained = new HashMap<>();
        for (Split each : table.newReadBuilder().newScan().plan().splits()) {
            DataSplit split = (DataSplit) each;
            String place = isUnaware ? split.partition().toString() : split.partition() + "/" + split.bucket();
            BaseAppendDeleteFileMaintainer vectors = maintained.computeIfAbsent(place, key -> isUnaware
                    ? BaseAppendDeleteFileMaintainer.forUnawareAppend(files, snapshot, split.partition())
                    : BaseAppendDeleteFileMaintainer.forBucketedAppend(
                            files, snapshot, split.partition(), split.bucket()));
            for (int i = 0; i < split.dataFiles().size(); i++) {
                DeletionVector found = positions(table, one(split, i), column, values);
                if (!found.isEmpty()) {
                    vectors.notifyNewDeletionVector(split.dataFiles().get(i).fileName(), found);
                }
            }
        }
        commit(table, snapshot, maintained.values());
    }

    /** The split with one of its files. */
    static DataSplit one(DataSplit split, int file) {
        DataSplit.Builder builder = DataSplit.builder()
                .withSnapshot(split.snapshotId())
                .withPartition(split.partition())
                .withBucket(split.bucket())
                .withBucketPath(split.bucketPath())
                .withTotalBuckets(split.totalBuckets())
                .rawConvertible(true)
                .withDataFiles(List.<DataFileMeta>of(split.dataFiles().get(file)));
        if (split.deletionFiles().isPresent()) {
            builder.withDataDeletionFiles(new ArrayList<>(split.deletionFiles().get().subList(file, file + 1)));
        }
        return builder.build();
    }

    private static DeletionVector positions(FileStoreTable table, DataSplit split, String column, Set<Object> values)
            throws Exception {
        int field = table.rowType().getFieldIndex(column);
        DataType type = table.rowType().getTypeAt(field);
        InternalRow.FieldGetter getter = InternalRow.createFieldGetter(type, field);
        DeletionVector found = table.coreOptions().deletionVectorBitmap64()
                ? new Bitmap64DeletionVector()
                : new BitmapDeletionVector();
        RecordReader<InternalRow> reader = table.newReadBuilder().newRead().createReader(split);
        while (true) {
            FileRecordIterator<InternalRow> batch = (FileRecordIterator<InternalRow>) reader.readBatch();
            if (batch == null) {
                reader.close();
                return found;
            }
            for (InternalRow row = batch.next(); row != null; row = batch.next()) {
                if (values.contains(String.valueOf(getter.getFieldOrNull(row)))) {
                    found.delete(batch.returnedPosition());
                }
            }
            batch.releaseBatch();
        }
    }

    private static void commit(
            FileStoreTable table, Snapshot snapshot, Iterable<BaseAppendDeleteFileMaintainer> maintained)
            throws Exception {
        List<CommitMessage> messages = new ArrayList<>();
        for (BaseAppendDeleteFileMaintainer vectors : maintained) {
            List<IndexFileMeta> added = new ArrayList<>();
            List<IndexFileMeta> deleted = new ArrayList<>();
            for (IndexManifestEntry entry : vectors.persist()) {
                (entry.kind() == FileKind.ADD ? added : deleted).add(entry.indexFile());
            }
            messages.add(new CommitMessageImpl(
                    vectors.getPartition(),
                    vectors.getBucket(),
                    null,
                    new DataIncrement(List.of(), List.of(), List.of(), added, deleted),
                    CompactIncrement.emptyIncrement()));
        }
        try (TableCommitImpl commit = table.newCommit(UUID.randomUUID().toString())) {
            commit.commit(0, messages);
        }
    }
}
