import org.apache.paimon.CoreOptions;
import org.apache.paimon.Snapshot;
import org.apache.paimon.append.dataevolution.DataEvolutionCompactCoordinator;
import org.apache.paimon.append.dataevolution.DataEvolutionCompactTask;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.append.AppendDeleteFileMaintainer;
import org.apache.paimon.deletionvectors.append.BaseAppendDeleteFileMaintainer;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.operation.AppendFileStoreWrite;
import org.apache.paimon.partition.PartitionPredicate;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.source.EndOfScanException;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.RecordWriter;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/**
 * Java's own compactions, updates and deletes of tables with data evolution: one JSON object a line,
 * one answer each.  `compact`, `update` and `delete` keep what they wrote; `commit` commits it.
 */
public class EvolvingTables {

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Written> WRITTEN = new HashMap<>();

    private static class Written {
        final FileStoreTable table;
        final Long from;
        final List<CommitMessage> messages;

        Written(FileStoreTable table, Long from, List<CommitMessage> messages) {
            this.table = table;
            this.from = from;
            this.messages = messages;
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                JsonNode step = JSON.readTree(line);
                switch (step.get("op").asText()) {
                    case "compact":
                        compact(step, answer);
                        break;
                    case "update":
                        update(step, answer);
                        break;
                    case "delete":
                        delete(step);
                        break;
                    case "reassign":
                        reassign(table(step));
                        break;
                    default:
                        commit(step);
                }
            } catch (Throwable e) {
                Throwable cause = e;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                answer.put("error", String.valueOf(cause.getMessage()));
                e.printStackTrace();
            }
            System.out.println(JSON.writeValueAsString(answer));
            System.out.flush();
        }
    }

    private static FileStoreTable table(JsonNode step) {
        Map<String, String> options = new HashMap<>();
        options.put(CoreOptions.WRITE_ONLY.key(), "false");
        return FileStoreTableFactory.create(
                        LocalFileIO.create(), new Path(step.get("path").asText()))
                .copy(options);
    }

    private static void compact(JsonNode step, ObjectNode answer) throws Exception {
        FileStoreTable table = table(step);
        PartitionPredicate partitions = null;
        if (step.hasNonNull("partition")) {
            Map<String, String> spec = new HashMap<>();
            step.get("partition").fields()
                    .forEachRemaining(e -> spec.put(e.getKey(), e.getValue().asText()));
            partitions =
                    PartitionPredicate.fromMap(
                            table.schema().logicalPartitionType(),
                            spec,
                            table.coreOptions().partitionDefaultName());
        }
        DataEvolutionCompactCoordinator coordinator = coordinator(table, partitions);
        List<CommitMessage> messages = new ArrayList<>();
        ArrayNode tasks = answer.putArray("tasks");
        try {
            while (true) {
                for (DataEvolutionCompactTask task : coordinator.plan()) {
                    ArrayNode names = tasks.addArray();
                    task.compactBefore().forEach(f -> names.add(f.fileName()));
                    if (!step.path("plan_only").asBoolean(false)) {
                        messages.add(task.doCompact(table, UUID.randomUUID().toString()));
                    }
                }
            }
        } catch (EndOfScanException end) {
            messages.addAll(preparation(table, messages));
            WRITTEN.put(step.get("id").asText(), new Written(table, null, messages));
        }
    }

    /** What a compaction does with vectors and indexes, of which 1.4.2 knows nothing. */
    @SuppressWarnings("unchecked")
    private static List<CommitMessage> preparation(
            FileStoreTable table, List<CommitMessage> messages) throws Exception {
        Class<?> preparation;
        try {
            preparation =
                    Class.forName(
                            "org.apache.paimon.append.dataevolution"
                                    + ".DataEvolutionCompactionCommitPreparation");
        } catch (ClassNotFoundException none) {
            return new ArrayList<>();
        }
        Object made =
                preparation.getConstructor(FileStoreTable.class, Snapshot.class)
                        .newInstance(table, table.snapshotManager().latestSnapshot());
        return (List<CommitMessage>)
                preparation.getMethod("prepare", List.class).invoke(made, messages);
    }

    /** Gives the rows of each partition new ids without gaps, as `reassign_row_id` of 2.0 does. */
    private static void reassign(FileStoreTable table) throws Exception {
        Class<?> reassigner =
                Class.forName(
                        "org.apache.paimon.append.dataevolution.DataEvolutionRowIdReassigner");
        Object made = reassigner.getConstructor(FileStoreTable.class).newInstance(table);
        reassigner.getMethod("reassign").invoke(made);
    }

    /** Marks positions of files as deleted, as DELETE of 2.0 does with the oldest file of a group. */
    private static void delete(JsonNode step) throws Exception {
        FileStoreTable table = table(step);
        Snapshot latest = table.snapshotManager().latestSnapshot();
        Map<BinaryRow, AppendDeleteFileMaintainer> maintainers = new HashMap<>();
        List<ManifestEntry> entries = new ArrayList<>();
        table.newSnapshotReader().readFileIterator().forEachRemaining(entries::add);
        for (ManifestEntry entry : entries) {
            JsonNode positions = step.get("positions").get(entry.file().fileName());
            if (positions == null) {
                continue;
            }
            DeletionVector vector = new BitmapDeletionVector();
            positions.forEach(p -> vector.delete(p.asLong()));
            maintainers
                    .computeIfAbsent(
                            entry.partition(),
                            partition ->
                                    BaseAppendDeleteFileMaintainer.forUnawareAppend(
                                            table.store().newIndexFileHandler(), latest, partition))
                    .notifyNewDeletionVector(entry.file().fileName(), vector);
        }
        List<CommitMessage> messages = new ArrayList<>();
        for (Map.Entry<BinaryRow, AppendDeleteFileMaintainer> one : maintainers.entrySet()) {
            List<IndexFileMeta> added = new ArrayList<>();
            List<IndexFileMeta> gone = new ArrayList<>();
            for (IndexManifestEntry entry : one.getValue().persist()) {
                (entry.kind() == FileKind.ADD ? added : gone).add(entry.indexFile());
            }
            messages.add(
                    new CommitMessageImpl(
                            one.getKey(),
                            0,
                            null,
                            new DataIncrement(
                                    new ArrayList<>(),
                                    new ArrayList<>(),
                                    new ArrayList<>(),
                                    added,
                                    gone),
                            CompactIncrement.emptyIncrement()));
        }
        WRITTEN.put(step.get("id").asText(), new Written(table, null, messages));
    }

    /** 2.0 wants the snapshot, too. */
    private static DataEvolutionCompactCoordinator coordinator(
            FileStoreTable table, PartitionPredicate partitions) throws Exception {
        for (Constructor<?> one : DataEvolutionCompactCoordinator.class.getConstructors()) {
            Class<?>[] types = one.getParameterTypes();
            if (types[1] != PartitionPredicate.class) {
                continue;
            }
            return (DataEvolutionCompactCoordinator)
                    (types.length == 4
                            ? one.newInstance(table, partitions, false, false)
                            : one.newInstance(
                                    table,
                                    partitions,
                                    Boolean.parseBoolean(
                                            table.options().get("blob-compaction.enabled")),
                                    false,
                                    table.snapshotManager().latestSnapshot()));
        }
        throw new IllegalStateException("no constructor of the coordinator");
    }

    /** Writes new values of some columns for the files that begin with a row, as MERGE INTO does. */
    private static void update(JsonNode step, ObjectNode answer) throws Exception {
        FileStoreTable table = table(step);
        long first = step.get("first_row_id").asLong();
        BinaryRow partition = null;
        List<ManifestEntry> entries = new ArrayList<>();
        table.newSnapshotReader().readFileIterator().forEachRemaining(entries::add);
        for (ManifestEntry entry : entries) {
            if (entry.file().nonNullFirstRowId() == first) {
                partition = entry.partition();
            }
        }
        List<String> names = new ArrayList<>();
        step.get("columns").forEach(n -> names.add(n.asText()));
        RowType type = table.rowType().project(names);
        AppendFileStoreWrite write =
                (AppendFileStoreWrite) table.store().newWrite(UUID.randomUUID().toString());
        write.withWriteType(type);
        RecordWriter<InternalRow> writer = write.createWriter(partition, 0);
        for (JsonNode values : step.get("rows")) {
            GenericRow row = new GenericRow(type.getFieldCount());
            for (int i = 0; i < type.getFieldCount(); i++) {
                row.setField(i, value(values.get(i), type.getTypeAt(i)));
            }
            writer.write(row);
        }
        List<DataFileMeta> files = new ArrayList<>();
        for (DataFileMeta file : writer.prepareCommit(true).newFilesIncrement().newFiles()) {
            files.add(file.assignFirstRowId(first));
        }
        writer.close();
        write.close();
        CommitMessage message =
                new CommitMessageImpl(
                        partition,
                        0,
                        null,
                        new DataIncrement(files, new ArrayList<>(), new ArrayList<>()),
                        CompactIncrement.emptyIncrement());
        List<CommitMessage> messages = new ArrayList<>();
        messages.add(message);
        long from = table.snapshotManager().latestSnapshotId();
        WRITTEN.put(step.get("id").asText(), new Written(table, from, messages));
        answer.put("from", from);
    }

    private static Object value(JsonNode node, DataType type) {
        if (node == null || node.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case INTEGER:
                return node.asInt();
            case BIGINT:
                return node.asLong();
            default:
                return BinaryString.fromString(node.asText());
        }
    }

    private static void commit(JsonNode step) throws Exception {
        Written written = WRITTEN.remove(step.get("id").asText());
        try (TableCommitImpl commit = written.table.newCommit(UUID.randomUUID().toString())) {
            commit.rowIdCheckConflict(written.from);
            commit.commit(written.messages);
        }
    }
}
