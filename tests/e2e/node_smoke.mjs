// One walk through the gateway with Node's own fetch: node node_smoke.mjs BASE_URL. Says what it saw as JSON.
const base = process.argv[2];

function post(path, body, init = {}) {
  const headers = { 'content-type': 'application/json', authorization: 'Bearer sk-node', 'anthropic-version': '2023-06-01' };
  return fetch(base + path, { method: 'POST', headers, body: JSON.stringify(body), ...init });
}

async function* dataOf(response) {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let rest = '';
  for await (const piece of response.body) {
    rest += decoder.decode(piece, { stream: true });
    const blocks = rest.split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      yield block.split('\n').filter((l) => l.startsWith('data:')).map((l) => l.slice(5).trim()).join('\n');
    }
  }
  if (rest !== '') throw new Error('the stream ended inside an event: ' + rest);
}

const ask = (model, stream) => ({ model, stream, max_tokens: 50, messages: [{ role: 'user', content: 'Grüße 世界' }] });

async function chat(model) {
  const response = await post('/v1/chat/completions', ask(model, true));
  let text = '', finish = null, last = null;
  for await (const data of dataOf(response)) {
    last = data;
    if (data === '[DONE]') continue;
    const choice = JSON.parse(data).choices[0];
    text += choice?.delta?.content ?? '';
    finish = choice?.finish_reason ?? finish;
  }
  return { status: response.status, type: response.headers.get('content-type'), provider: response.headers.get('x-ringmain-provider'), text, finish, last };
}

async function messages(model) {
  const response = await post('/v1/messages', ask(model, true));
  let text = '', stop = null, last = null;
  for await (const data of dataOf(response)) {
    const event = JSON.parse(data);
    last = event.type;
    text += event.delta?.text ?? '';
    stop = event.delta?.stop_reason ?? stop;
  }
  return { status: response.status, text, stop, last };
}

async function leave(model) {
  const controller = new AbortController();
  const response = await post('/v1/chat/completions', ask(model, true), { signal: controller.signal });
  for await (const data of dataOf(response)) {
    if (JSON.parse(data).choices[0].delta.content) break;
  }
  controller.abort();
  return response.status;
}

async function json(response) {
  return { status: response.status, body: await response.json() };
}

const seen = {
  chat: await chat('r'),
  messages: await messages('r'),
  whole: await json(await post('/v1/chat/completions', ask('r', false))),
  unknown: await json(await post('/v1/chat/completions', ask('nothing', true))),
  models: await json(await fetch(base + '/v1/models')),
  many: (await Promise.all(Array.from({ length: 20 }, (_, i) => (i % 2 ? chat('r') : messages('r'))))).map((r) => r.text),
  left: await leave('endless'),
};
console.log(JSON.stringify(seen));
