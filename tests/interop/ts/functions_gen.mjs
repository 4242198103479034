// The functions of the suite, for the generator engine. Plain functions are steps, generators are workflows.

import { appendFileSync, existsSync, writeFileSync } from "node:fs";

const add = (ctx, a, b) => a + b;

const mark = (ctx, directory, text) => {
  appendFileSync(`${directory}/marks`, `${text}\n`);
  return text;
};

const hang = async (ctx, directory) => {
  if (existsSync(`${directory}/hung`)) return "two";
  writeFileSync(`${directory}/hung`, "");
  return new Promise((resolve) => setTimeout(resolve, 3_600_000));
};

function* nested(ctx, depth) {
  if (depth === 0) return 1;
  const below = yield* ctx.run(nested, depth - 1);
  return yield* ctx.run(add, below, 1);
}

function* remote(ctx, target, a, b) {
  return yield* ctx.rpc("add", a, b, ctx.options({ target }));
}

function* napper(ctx, ms) {
  yield* ctx.sleep(ms);
  return "rested";
}

function* human(ctx) {
  const answer = yield* ctx.promise();
  return `got ${yield* answer}`;
}

function* detacher(ctx, target) {
  yield* ctx.detached("add", 20, 22, ctx.options({ target }));
  return "left";
}

function* thrower(ctx, message) {
  throw new Error(message);
}

function* catcher(ctx, message, target) {
  const caught = [];
  try {
    yield* ctx.run(thrower, `${message} here`);
  } catch (error) {
    caught.push(error.message);
  }
  try {
    yield* ctx.rpc("thrower", `${message} there`, ctx.options({ target }));
  } catch (error) {
    caught.push(error.message);
  }
  return caught;
}

function* slow(ctx, directory) {
  const first = yield* ctx.run(mark, directory, "one");
  const second = yield* ctx.run(hang, directory);
  return [first, second];
}

export const functions = { add, nested, remote, napper, human, detacher, thrower, catcher, slow };
