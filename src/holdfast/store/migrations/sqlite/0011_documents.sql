-- Small documents beside the records: who works here, who changed what, how much happened in a minute.

CREATE TABLE holdfast_documents (
  kind TEXT    NOT NULL,
  id   TEXT    NOT NULL,
  at   INTEGER NOT NULL,
  text TEXT    NOT NULL, -- JSON
  PRIMARY KEY (kind, id)
);
