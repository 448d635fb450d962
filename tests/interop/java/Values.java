import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.MultisetType;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;

/**
 * Paimon's values as JSON and back, without loss; tests/interop/java_values.py is the other end.
 *
 * <pre>
 * BOOLEAN                         true, false
 * TINYINT .. BIGINT, DATE, TIME   number: of days; of milliseconds
 * FLOAT, DOUBLE                   number: the bits as an INT or BIGINT
 * DECIMAL                         text: unscaled
 * CHAR, VARCHAR                   text
 * BINARY, VARBINARY               text: hex
 * TIMESTAMP, TIMESTAMP_LTZ        [milliseconds, nanoseconds of the last of them]
 * ARRAY, ROW                      list
 * MAP, MULTISET                   list of [key, value]
 * row with its kind               ["+I", value, ...]
 * </pre>
 */
final class Values {

    private Values() {}

    static GenericRow row(JsonNode values, RowType type) {
        GenericRow row = fields(values, type, 1);
        row.setRowKind(RowKind.fromShortString(values.get(0).asText()));
        return row;
    }

    static List<Object> json(InternalRow row, RowType type) {
        List<Object> found = new ArrayList<>();
        found.add(row.getRowKind().shortString());
        found.addAll(fieldsJson(row, type));
        return found;
    }

    private static GenericRow fields(JsonNode values, RowType type, int first) {
        GenericRow row = new GenericRow(type.getFieldCount());
        for (int i = 0; i < type.getFieldCount(); i++) {
            row.setField(i, value(values.get(first + i), type.getTypeAt(i)));
        }
        return row;
    }

    private static List<Object> fieldsJson(InternalRow row, RowType type) {
        List<Object> found = new ArrayList<>();
        for (int i = 0; i < type.getFieldCount(); i++) {
            found.add(json(InternalRow.createFieldGetter(type.getTypeAt(i), i).getFieldOrNull(row), type.getTypeAt(i)));
        }
        return found;
    }

    static Object value(JsonNode node, DataType type) {
        if (node.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return node.booleanValue();
            case TINYINT:
                return (byte) node.intValue();
            case SMALLINT:
                return (short) node.intValue();
            case INTEGER:
            case DATE:
            case TIME_WITHOUT_TIME_ZONE:
                return node.intValue();
            case BIGINT:
                return node.longValue();
            case FLOAT:
                return Float.intBitsToFloat(node.intValue());
            case DOUBLE:
                return Double.longBitsToDouble(node.longValue());
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                java.math.BigDecimal number =
                        new java.math.BigDecimal(new java.math.BigInteger(node.asText()), decimal.getScale());
                return Decimal.fromBigDecimal(number, decimal.getPrecision(), decimal.getScale());
            case CHAR:
            case VARCHAR:
                return BinaryString.fromString(node.asText());
            case BINARY:
            case VARBINARY:
                return bytes(node.asText());
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return Timestamp.fromEpochMillis(node.get(0).longValue(), node.get(1).intValue());
            case ARRAY:
                Object[] elements = new Object[node.size()];
                for (int i = 0; i < elements.length; i++) {
                    elements[i] = value(node.get(i), ((ArrayType) type).getElementType());
                }
                return new GenericArray(elements);
            case MAP:
            case MULTISET:
                Map<Object, Object> entries = new LinkedHashMap<>();
                for (JsonNode entry : node) {
                    entries.put(value(entry.get(0), keyType(type)), value(entry.get(1), valueType(type)));
                }
                return new GenericMap(entries);
            case ROW:
                return fields(node, (RowType) type, 0);
            default:
                throw new IllegalArgumentException("no JSON for " + type);
        }
    }

    private static Object json(Object value, DataType type) {
        if (value == null) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case FLOAT:
                return Float.floatToRawIntBits((Float) value);
            case DOUBLE:
                return Double.doubleToRawLongBits((Double) value);
            case DECIMAL:
                return ((Decimal) value).toBigDecimal().unscaledValue().toString();
            case CHAR:
            case VARCHAR:
                return value.toString();
            case BINARY:
            case VARBINARY:
                return hex((byte[]) value);
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                Timestamp time = (Timestamp) value;
                return List.of(time.getMillisecond(), time.getNanoOfMillisecond());
            case ARRAY:
                return arrayJson((InternalArray) value, ((ArrayType) type).getElementType());
            case MAP:
            case MULTISET:
                InternalMap map = (InternalMap) value;
                List<Object> keys = arrayJson(map.keyArray(), keyType(type));
                List<Object> values = arrayJson(map.valueArray(), valueType(type));
                List<Object> pairs = new ArrayList<>();
                for (int i = 0; i < keys.size(); i++) {
                    List<Object> pair = new ArrayList<>();
                    pair.add(keys.get(i));
                    pair.add(values.get(i));
                    pairs.add(pair);
                }
                return pairs;
            case ROW:
                return fieldsJson((InternalRow) value, (RowType) type);
            default:
                return value;
        }
    }

    private static List<Object> arrayJson(InternalArray array, DataType type) {
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(type);
        List<Object> found = new ArrayList<>();
        for (int i = 0; i < array.size(); i++) {
            found.add(json(getter.getElementOrNull(array, i), type));
        }
        return found;
    }

    private static DataType keyType(DataType type) {
        return type instanceof MapType ? ((MapType) type).getKeyType() : ((MultisetType) type).getElementType();
    }

    private static DataType valueType(DataType type) {
        return type instanceof MapType ? ((MapType) type).getValueType() : DataTypes.INT().notNull();
    }

    private static byte[] bytes(String hex) {
        byte[] found = new byte[hex.length() / 2];
        for (int i = 0; i < found.length; i++) {
            found[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return found;
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte each : bytes) {
            text.append(String.format("%02x", each));
        }
        return text.toString();
    }
}
