"""Named bounds of the protocol. Past one of them a request is refused with 400 and a sentence.

Units come last in each name. `docs/reference/protocol.md` lists the same numbers for users.
"""

from typing import Final

id_bytes_max: Final = 1_024  # also pids, correlation ids, idempotency keys, addresses, groups
entry_count_max: Final = 64  # tags of a promise, headers of a value
key_bytes_max: Final = 1_024
entry_bytes_max: Final = 4_096
data_bytes_max: Final = 1_048_576
instant_ms_max: Final = 2**53 - 1  # what every JSON reader keeps exactly
version_max: Final = 2**53 - 1
ttl_ms_max: Final = 86_400_000
error_bytes_max: Final = 4_096
echo_bytes_max: Final = 1_024  # of a kind, a correlation id and a version that a reply repeats
actions_max: Final = 10_000
heartbeat_tasks_max: Final = 10_000
listeners_max: Final = 10_000  # of one promise: all of them are told in one commit
batch_envelopes_max: Final = 1_000
batch_schedules_max: Final = 100  # schedule.create among them
cron_bytes_max: Final = 256
page_size_max: Final = 1_000
page_size: Final = 100
schedule_page_size: Final = 10
search_steps_max: Final = 10_000  # records that one search looks at, times the tags it compares
queue_count_max: Final = 50_000  # tasks of one queue are counted up to here
execution_count_max: Final = 10_000  # executions of one status are counted up to here
statuses_max: Final = 16  # that one search names
waits_max: Final = 16  # promises that a suspended execution is told to wait for, with their lines of code
wait_text_bytes_max: Final = 1_024  # of each file, function, fiber and operation among them
waits_bytes_max: Final = 8_192  # of all of them, as JSON
# Bytes of records, as `sizes` counts them. What is larger by itself still goes, alone.
search_bytes_max: Final = 8 * 1_048_576  # in one page
claim_bytes_max: Final = 8 * 1_048_576  # of the promises that one claim is given
preload_bytes_max: Final = 8 * 1_048_576  # of all preloads in one answer
preload_records_max: Final = 2_000  # of one branch
commit_preload_records_max: Final = 4_000  # a commit that has handled so many records preloads no more
commit_claim_bytes_max: Final = 16 * 1_048_576  # of all claims and preloads in one commit
commit_bytes_max: Final = 64 * 1_048_576  # of all records that the requests of one commit name
sweep_bytes_max: Final = 16 * 1_048_576  # of what is due and settled in one commit
queue_bytes_max: Final = 64 * 1_048_576  # payloads that wait for a commit
messages_bytes_max: Final = 32 * 1_048_576  # that wait in the message router; in mailboxes; to be pushed
node_bytes_max: Final = 128 * 1_048_576  # of all that waits in a node; past that it takes no request
claim_count_max: Final = 1_000
claim_groups_max: Final = 64
claim_known_max: Final = 64  # executions that a claim says it needs no preload of
priority_max: Final = 1_000_000
catch_up_max: Final = 1_000
catch_up: Final = 100
late_run_ms_max: Final = 60_000  # with catchUp 0, what is due for longer has been missed
backfill_runs_max: Final = 100  # occurrences that one schedule.backfill looks at
backfill_ahead_ms_max: Final = (
    60_000  # clocks differ: an end of a backfill that lies ahead by that much is now
)
every_ms_min: Final = 1_000

queue_name_bytes_max: Final = 256
job_key_bytes_max: Final = 256  # also unique keys
code_bytes_max: Final = 256
job_retries_max: Final = 100
job_retry_ms_min: Final = 1  # a retry always lies ahead
job_retry_ms_max: Final = 30 * 86_400_000
job_retry_factor_max: Final = 10.0
job_retry_codes_max: Final = 100
job_errors_max: Final = 10  # of the latest attempts, beside their codes
job_error_bytes_max: Final = 4_096
job_jitter_permille: Final = 250
concurrency_max: Final = 1_000_000
rate_count_max: Final = 1_000_000
rate_ms_max: Final = 30 * 86_400_000
rate_slots: Final = 32  # a rate's window is remembered in so many parts
meter_keys_max: Final = 10_000
replaced_max: Final = 100  # executions of one key that another one replaces
mended_records_max: Final = 10_000  # below an execution that is retried, forked or begun anew
mended_depth_max: Final = 16  # calls that failed one below the other
called_depth_max: Final = 32  # calls one below the other that are ended together
fair_weight_max: Final = 1_000
fair_weights_max: Final = 1_000  # keys of a queue that have a weight of their own
fair_priorities_max: Final = 100  # of one queue, in which keys take turns
claim_rounds_max: Final = 32
job_offers_max: Final = 64  # execute messages for one queue in one commit: each wakes a worker

stream_elements_max: Final = 1_000_000  # of one stream, besides those that were deleted
stream_number_max: Final = 2**53 - 1  # of an element
forget_max: Final = 10_000  # records that one task.restart deletes
trim_max: Final = 32  # elements of one stream that one task.restart deletes
read_message_ms: Final = 600_000  # so long a message stays that an earlier generation has read
streams_max: Final = 64  # of one execution
stream_key_bytes_max: Final = 256
unread_messages_max: Final = 10_000  # in the mailbox of one execution
unread_bytes_max: Final = 16 * 1_048_576
open_answers_max: Final = 1_000  # of one execution: all of them end with it, in one commit
stream_page_size_max: Final = 256  # elements in one answer
stream_page_size: Final = 100
stream_page_bytes_max: Final = 1_048_576  # of elements; one that is larger by itself still goes, alone
stream_skips_max: Final = 100  # numbers that somebody else has taken, passed over by one request

lock_name_bytes_max: Final = 256
lock_waiters_max: Final = 1_000  # of one lock: its record, which holds them, is written with each change
lock_holding_max: Final = 16  # tickets that one strand of code keeps while it waits for another
permits_max: Final = 10_000  # of one name
ring_tickets_max: Final = 256  # that are looked at to find out whether executions wait for each other

event_name_bytes_max: Final = 256  # also of ids of events, and of names of attributes
event_attributes_max: Final = 32
event_match_max: Final = 8  # attributes by which one wait compares
event_attribute_bytes_max: Final = 256
event_shapes_max: Final = 16  # sets of attributes by which events of one name are awaited
event_subscriptions_max: Final = 16  # workflows that events of one name start
event_bucket_max: Final = 128  # waits that are woken together
event_buckets_max: Final = 2  # that one commit wakes for one event
event_look_back_max: Final = 1_000  # events of its name that a wait looks back at
event_look_back_bytes_max: Final = 4 * 1_048_576  # of those; the newest is looked at whatever it holds

retry_ms: Final = 30_000
offer_rest_ms_max: Final = 3_600_000  # between two offers of a task that nobody takes
crashes_default: Final = 10  # of an execution in a row, without progress: then it is halted
crashes_max: Final = 1_000_000
keep_ms_min: Final = 1_000
lost_claims_max: Final = 20  # of an execution, that are remembered
grace_ms: Final = 30_000  # of an execution that is started with a timeout: to clean up after it
progress_bytes_max: Final = 1_024  # of what one step tells of its progress, as JSON
progress_steps_max: Final = 16  # of one execution whose last words are kept
grace_ms_max: Final = 86_400_000
crash_rest_ms: Final = 1_000  # after the second one; twice as long after each further one
crash_rest_ms_max: Final = 600_000
bounce_window_ms: Final = 1_000
bounce_base_ms: Final = 100
bounce_ms_max: Final = 60_000
