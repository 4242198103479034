-- Since when a schedule is paused.

ALTER TABLE schedules ADD COLUMN paused_at BIGINT;
