"""Named bounds of the protocol. Past one of them a request is refused with 400 and a sentence.

Units come last in each name. `docs/reference/protocol.md` lists the same numbers for users.
"""

from typing import Final

id_bytes_max: Final = 1_024  # an id; also pids, correlation ids, idempotency keys, addresses, groups
entry_count_max: Final = 64  # tags of a promise, headers of a value
key_bytes_max: Final = 1_024  # the name of a tag or header
entry_bytes_max: Final = 4_096  # the value of a tag or header
data_bytes_max: Final = 1_048_576  # a payload as it is sent
instant_ms_max: Final = 2**53 - 1  # the largest integer that every JSON reader keeps exactly
version_max: Final = 2**53 - 1  # the version of a task
ttl_ms_max: Final = 86_400_000  # the lease of a claim: one day
error_bytes_max: Final = 4_096  # the text of an error or a reason
echo_bytes_max: Final = 1_024  # how much of a kind, correlation id or version a reply repeats
actions_max: Final = 10_000  # promises that one task.suspend names
heartbeat_tasks_max: Final = 10_000  # tasks in one heartbeat
listeners_max: Final = 10_000  # listeners of one promise; one commit notifies all of them
batch_envelopes_max: Final = 1_000  # envelopes in one array
batch_schedules_max: Final = 100  # schedule.create requests in one array
cron_bytes_max: Final = 256  # a cron expression
page_size_max: Final = 1_000  # records on one page of a search
page_size: Final = 100  # the default of that
schedule_page_size: Final = 10  # the default for schedules
search_steps_max: Final = 10_000  # records that one search reads, times the tags that it compares
queue_count_max: Final = 50_000  # tasks of one queue are counted up to here
execution_count_max: Final = 10_000  # executions of one status are counted up to here
statuses_max: Final = 16  # statuses in one search
waits_max: Final = 16  # promises, with their lines of code, in the report of a suspended execution
wait_text_bytes_max: Final = 1_024  # each file, function, fiber and operation in that report
waits_bytes_max: Final = 8_192  # the whole report, as JSON
# Bytes of records, as `sizes` counts them. What is larger by itself still goes, alone.
search_bytes_max: Final = 8 * 1_048_576  # one page of a search
claim_bytes_max: Final = 8 * 1_048_576  # the promises that one claim returns
preload_bytes_max: Final = 8 * 1_048_576  # all preloads in one answer
preload_records_max: Final = 2_000  # the preload of one branch; on SQLite, the records below it
commit_preload_records_max: Final = 4_000  # a commit that has handled this many records preloads no more
commit_claim_bytes_max: Final = 16 * 1_048_576  # all claims and preloads in one commit
commit_bytes_max: Final = 64 * 1_048_576  # all records that the requests of one commit name
sweep_bytes_max: Final = 16 * 1_048_576  # due records that one commit settles
queue_bytes_max: Final = 64 * 1_048_576  # payloads that wait for a commit
messages_bytes_max: Final = 32 * 1_048_576  # messages that wait: in the router, in mailboxes, to be pushed
node_bytes_max: Final = 128 * 1_048_576  # everything that waits in a node; past it the node takes no request
claim_count_max: Final = 1_000  # tasks in one claim
claim_groups_max: Final = 64  # groups in one claim
claim_known_max: Final = 64  # executions in one claim that need no preload
priority_max: Final = 1_000_000  # a priority, above or below zero
catch_up_max: Final = 1_000  # missed occurrences that a schedule runs
catch_up: Final = 100  # the default of that
late_run_ms_max: Final = 60_000  # with catchUp 0, an occurrence that is later than this counts as missed
backfill_runs_max: Final = 100  # occurrences that one schedule.backfill reads
backfill_ahead_ms_max: Final = (
    60_000  # clocks differ: an end of a backfill that lies ahead by that much is now
)
every_ms_min: Final = 1_000  # the shortest interval of a schedule

queue_name_bytes_max: Final = 256  # the name of a queue
job_key_bytes_max: Final = 256  # a limit key or a unique key
code_bytes_max: Final = 256  # an error code
job_retries_max: Final = 100  # retries of a background task
job_retry_ms_min: Final = 1  # the shortest wait before a retry
job_retry_ms_max: Final = 30 * 86_400_000  # the longest wait before a retry: 30 days
job_retry_factor_max: Final = 10.0  # by which the wait grows
job_retry_codes_max: Final = 100  # error codes in one retry policy
job_errors_max: Final = 10  # the latest attempts whose errors are kept; codes are kept for all
job_error_bytes_max: Final = 4_096  # each of those errors
job_jitter_permille: Final = 250  # by which the wait before a retry varies, up or down
concurrency_max: Final = 1_000_000  # a concurrency limit of a queue
rate_count_max: Final = 1_000_000  # the count of a rate limit
rate_ms_max: Final = 30 * 86_400_000  # the window of a rate limit: 30 days
rate_slots: Final = 32  # parts in which the window of a rate is stored
meter_keys_max: Final = 10_000  # limit keys of a queue whose rate is counted
replaced_max: Final = 100  # executions of one key that a new one replaces
mended_records_max: Final = 10_000  # records below an execution that is retried, forked or started again
mended_depth_max: Final = 16  # nested calls that failed, in a retry
called_depth_max: Final = 32  # nested calls that are ended together
fair_weight_max: Final = 1_000  # the weight of a key
fair_weights_max: Final = 1_000  # keys of a queue that have a weight
fair_priorities_max: Final = 100  # priorities of one queue in which keys take turns
claim_rounds_max: Final = 32  # rounds in which one claim reads tasks
job_offers_max: Final = 64  # execute messages for one queue in one commit; each wakes a worker

stream_elements_max: Final = 1_000_000  # elements of one stream, without deleted ones
stream_number_max: Final = 2**53 - 1  # the number of an element
forget_max: Final = 10_000  # records that one task.restart deletes
trim_max: Final = 32  # elements of one stream that one task.restart deletes
read_message_ms: Final = 600_000  # how long a message is kept after an earlier generation has read it
streams_max: Final = 64  # streams of one execution
stream_key_bytes_max: Final = 256  # the key of a message or an element
unread_messages_max: Final = 10_000  # unread messages of one execution
unread_bytes_max: Final = 16 * 1_048_576  # all unread messages of one execution
open_answers_max: Final = 1_000  # open questions to one execution; all end with it, in one commit
stream_page_size_max: Final = 256  # elements in one answer
stream_page_size: Final = 100  # the default of that
stream_page_bytes_max: Final = 1_048_576  # all elements in one answer; a larger element is sent alone
stream_skips_max: Final = 100  # numbers taken by other writers that one request skips

lock_name_bytes_max: Final = 256  # the name of a lock
lock_waiters_max: Final = 1_000  # waiters of one lock; they are in its record, which every change writes
lock_bytes_max: Final = 2 * 1_048_576  # the record of one lock; a larger one takes no more tickets
lock_holding_max: Final = 16  # locks that code holds while it waits for another
permits_max: Final = 10_000  # permits of one name
ring_tickets_max: Final = 256  # waits that the search for a deadlock reads
ring_waits_max: Final = 64  # tickets and executions that one execution waits for, for it to be searched
ring_chars_max: Final = 2_000  # of the sentence about a deadlock

event_name_bytes_max: Final = 256  # the name or id of an event, or the name of an attribute
event_attributes_max: Final = 32  # attributes of one event
event_match_max: Final = 8  # attributes in one wait
event_attribute_bytes_max: Final = 256  # the value of an attribute that can be matched
event_shapes_max: Final = 16  # different sets of attributes in the waits for one name
event_subscriptions_max: Final = 16  # workflows that events of one name start
subscription_bytes_max: Final = 8_192  # the id, the workflow and the tags of one of these
event_bucket_max: Final = 128  # waits that are woken together
event_buckets_max: Final = 2  # such groups of waits that one commit wakes for one event
event_wake_bytes_max: Final = 4 * 1_048_576  # values of waits that one commit writes for one event
event_look_back_max: Final = 1_000  # events of its name that a wait reads when it looks back
event_look_back_bytes_max: Final = 4 * 1_048_576  # all of those; the newest is read in any case

retry_ms: Final = 30_000  # the pause before a task that nobody took is offered again
offer_rest_ms_max: Final = 3_600_000  # the longest pause between two offers of a task
crashes_default: Final = 10  # crashes in a row without progress, after which an execution is halted
crashes_max: Final = 1_000_000  # the most that a workflow can set for that
keep_ms_min: Final = 1_000  # the shortest `keep` of a background task
lost_claims_max: Final = 20  # lost claims of an execution that are kept
grace_ms: Final = 30_000  # time to clean up after a timeout, by default
progress_bytes_max: Final = 1_024  # one progress report, as JSON
progress_steps_max: Final = 16  # steps of one execution whose last progress report is kept
grace_ms_max: Final = 86_400_000  # the longest time to clean up: one day
crash_rest_ms: Final = 1_000  # the pause after the second crash; it doubles after each further one
crash_rest_ms_max: Final = 600_000  # the longest pause after a crash
bounce_window_ms: Final = 1_000  # a task that is given back sooner after its claim than this has bounced
bounce_base_ms: Final = 100  # the first pause of a task that bounces; it doubles each time
bounce_ms_max: Final = 60_000  # the longest of these pauses
