-- Small documents beside the records: who works here, who changed what, how much happened in a minute.
-- compatible from 2

CREATE TABLE holdfast_documents (
  kind TEXT   NOT NULL COLLATE "C",
  id   TEXT   NOT NULL COLLATE "C",
  at   BIGINT NOT NULL,
  text TEXT   NOT NULL, -- JSON
  PRIMARY KEY (kind, id)
);
