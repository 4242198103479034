// A program that uses the official TypeScript SDK as any user would: it registers functions, works for a group,
// and does what it is told by one JSON object per line on its standard input.
//
//   node program.mjs SDK ENGINE URL GROUP TTL_MS     (SDK: sdk-0.11.5; ENGINE: gen or async)

import { createInterface } from "node:readline";

const [sdk, engine, url, group, ttl] = process.argv.slice(2);
const { Resonate } = await import(engine === "async" ? `${sdk}/async` : sdk);
const { functions } = await import(`./functions_${engine}.mjs`);

// The token has to be given here: from the environment this SDK takes it for its requests, not for its stream.
const resonate = new Resonate({ url, group, ttl: Number(ttl), token: process.env.RESONATE_TOKEN });
for (const [name, func] of Object.entries(functions)) resonate.register(name, func);

async function settled(started) {
  const found = await started;
  return engine === "async" ? found.result() : found;
}

const operations = {
  run: ({ id, func, args }) => settled(resonate.run(id, func, ...args)),
  rpc: ({ id, func, args, target }) =>
    settled(resonate.rpc(id, func, ...args, resonate.options(target ? { target } : {}))),
  create: async ({ id, func, args, target, headers, timeout_at }) => {
    const data = Buffer.from(JSON.stringify({ func, args })).toString("base64");
    const tags = { "resonate:target": target };
    return (await resonate.promises.create(id, timeout_at, { headers, data, tags })).id;
  },
  headers: async ({ id }) => (await resonate.promises.get(id)).param.headers,
  get: async ({ id }) => (await resonate.get(id)).result(),
  schedule: async ({ id, cron, func, args }) => {
    // Without a target this SDK sends to the group "default", whatever its own group is.
    await resonate.schedule(id, cron, func, ...args, resonate.options({ target: group }));
    return id;
  },
  unschedule: async ({ id }) => {
    await resonate.schedules.delete(id);
    return id;
  },
};

function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

createInterface({ input: process.stdin })
  .on("line", async (line) => {
    const command = JSON.parse(line);
    try {
      say({ n: command.n, value: (await operations[command.op](command)) ?? null });
    } catch (error) {
      say({ n: command.n, error: String(error?.message ?? error) });
    }
  })
  .on("close", () => process.exit(0));
say({ ready: true });
