// The functions of the suite, for the async engine.

import { appendFileSync, existsSync, writeFileSync } from "node:fs";

const add = async (ctx, a, b) => a + b;

const mark = async (ctx, directory, text) => {
  appendFileSync(`${directory}/marks`, `${text}\n`);
  return text;
};

const hang = async (ctx, directory) => {
  if (existsSync(`${directory}/hung`)) return "two";
  writeFileSync(`${directory}/hung`, "");
  return new Promise((resolve) => setTimeout(resolve, 3_600_000));
};

const nested = async (ctx, depth) => {
  if (depth === 0) return 1;
  const below = await ctx.run(nested, depth - 1);
  return await ctx.run(add, below, 1);
};

const remote = async (ctx, target, a, b) => await ctx.rpc("add", a, b, ctx.options({ target }));

const napper = async (ctx, ms) => {
  await ctx.sleep(ms);
  return "rested";
};

const human = async (ctx) => `got ${await ctx.promise()}`;

const detacher = async (ctx, target) => {
  await ctx.detached("add", 20, 22, ctx.options({ target }));
  return "left";
};

const thrower = async (ctx, message) => {
  throw new Error(message);
};

const catcher = async (ctx, message, target) => {
  const caught = [];
  try {
    await ctx.run(thrower, `${message} here`);
  } catch (error) {
    caught.push(error.message);
  }
  try {
    await ctx.rpc("thrower", `${message} there`, ctx.options({ target }));
  } catch (error) {
    caught.push(error.message);
  }
  return caught;
};

const slow = async (ctx, directory) => {
  const first = await ctx.run(mark, directory, "one");
  const second = await ctx.run(hang, directory);
  return [first, second];
};

export const functions = { add, nested, remote, napper, human, detacher, thrower, catcher, slow };
