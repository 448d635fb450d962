import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.manifest.BucketEntry;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.EndOfScanException;

/** Compacts all buckets of a table in one commit: what a dedicated compaction job does. */
final class Compaction {

    private Compaction() {}

    static void compact(FileStoreTable stored, IOManager disk, boolean full) throws Exception {
        FileStoreTable table = stored.copy(java.util.Map.of("write-only", "false"));
        String user = UUID.randomUUID().toString();
        try (TableWriteImpl<?> write = (TableWriteImpl<?>) table.newWrite(user).withIOManager(disk);
                TableCommitImpl commit = table.newCommit(user)) {
            List<CommitMessage> messages;
            if (table.primaryKeys().isEmpty() && table.bucketMode() == BucketMode.BUCKET_UNAWARE) {
                messages = new ArrayList<>();
                try {
                    for (AppendCompactTask task : new AppendCompactCoordinator(table, false).run()) {
                        messages.add(task.doCompact(table, (BaseAppendFileStoreWrite) write.getWrite()));
                    }
                } catch (EndOfScanException noFiles) {
                    return;
                }
            } else {
                for (BucketEntry bucket : table.newSnapshotReader().bucketEntries()) {
                    write.compact(bucket.partition(), bucket.bucket(), full);
                }
                messages = write.prepareCommit(true, 0);
            }
            commit.commit(0, messages);
        }
    }
}
