CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = 'WAREHOUSE');
USE CATALOG lake;
CREATE DATABASE IF NOT EXISTS db;
CREATE TABLE IF NOT EXISTS db.t (k BIGINT NOT NULL, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '3', 'changelog-producer' = 'lookup', 'precommit-compact' = 'true', 'snapshot.num-retained.min' = '1000');
SET 'execution.checkpointing.interval' = '1 s';
SET 'table.dml-sync' = 'true';
CREATE TEMPORARY TABLE source (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '50', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '200');
INSERT INTO db.t SELECT MOD(id, 37), id FROM source;
