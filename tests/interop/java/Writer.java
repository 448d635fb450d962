import java.util.List;
import java.util.UUID;

import org.apache.paimon.CoreOptions;
import org.apache.paimon.crosspartition.GlobalIndexAssigner;
import org.apache.paimon.crosspartition.IndexBootstrap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.RowPartitionAllPrimaryKeyExtractor;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;

/**
 * A writer of one table with any kind of buckets, for one commit or for many: what a job of one task does. Each commit
 * waits for its compaction.
 */
final class Writer implements AutoCloseable {
    private final FileStoreTable table;
    private final TableWriteImpl<?> write;
    private final TableCommitImpl commit;
    private final HashBucketAssigner buckets;
    private final RowPartitionAllPrimaryKeyExtractor keys;
    private final GlobalIndexAssigner index;
    private long identifier;

    Writer(FileStoreTable table, IOManager disk) throws Exception {
        String user = UUID.randomUUID().toString();
        this.table = table;
        write = (TableWriteImpl<?>) table.newWrite(user).withIOManager(disk);
        commit = table.newCommit(user);
        BucketMode mode = table.bucketMode();
        CoreOptions options = table.coreOptions();
        keys = mode == BucketMode.HASH_DYNAMIC ? new RowPartitionAllPrimaryKeyExtractor(table.schema()) : null;
        buckets = keys == null
                ? null
                : new HashBucketAssigner(
                        table.snapshotManager(),
                        user,
                        table.store().newIndexFileHandler(),
                        1,
                        1,
                        0,
                        options.dynamicBucketTargetRowNum(),
                        options.dynamicBucketMaxBuckets());
        index = mode == BucketMode.KEY_DYNAMIC ? index(disk) : null;
    }

    private GlobalIndexAssigner index(IOManager disk) throws Exception {
        GlobalIndexAssigner found = new GlobalIndexAssigner(table);
        found.open(0, disk, 1, 0, (row, bucket) -> {
            try {
                write.write(row, bucket);
            } catch (Exception error) {
                throw new RuntimeException(error);
            }
        });
        new IndexBootstrap(table).bootstrap(1, 0, row -> {
            try {
                found.bootstrapKey(row);
            } catch (Exception error) {
                throw new RuntimeException(error);
            }
        });
        found.endBoostrap(false);
        return found;
    }

    void commit(List<InternalRow> rows) throws Exception {
        for (InternalRow row : rows) {
            if (index != null) {
                index.processInput(row);
            } else if (buckets != null) {
                write.write(row, buckets.assign(keys.partition(row), keys.trimmedPrimaryKey(row).hashCode()));
            } else {
                write.write(row);
            }
        }
        commit.commit(identifier, write.prepareCommit(true, identifier));
        identifier++;
        if (buckets != null) {
            buckets.prepareCommit(identifier);
        }
    }

    @Override
    public void close() throws Exception {
        if (index != null) {
            index.close();
        }
        write.close();
        commit.close();
    }
}
