// The console's own API.

/** A refusal, with what the console says beside its text. */
export class ApiError extends Error {
  constructor(status, body) {
    super(body.error ?? `the console answered ${status}`);
    this.status = status;
    this.body = body;
  }
}

function query(parameters) {
  const pairs = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return pairs.length ? `?${new URLSearchParams(pairs)}` : '';
}

async function ask(name, options) {
  let response;
  try {
    response = await fetch(`/console/api/${name}`, { credentials: 'same-origin', ...options });
  } catch {
    throw new ApiError(0, { error: 'the console cannot be reached' });
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new ApiError(response.status, body);
  return body;
}

export function get(name, parameters = {}) {
  return ask(`${name}${query(parameters)}`, {});
}

export function post(name, body = {}) {
  const headers = { 'Content-Type': 'application/json', 'X-Zoolet-Console': '1' };
  return ask(name, { method: 'POST', headers, body: JSON.stringify(body) });
}

/** Follows a stream of events, and shows whether it is there. */
export function follow(parameters, handlers) {
  const live = document.getElementById('live');
  const source = new EventSource(`/console/api/events${query(parameters)}`);
  const state = (text, isOn) => {
    live.textContent = text;
    live.classList.toggle('on', isOn);
  };
  source.addEventListener('open', () => state('Live', true));
  source.addEventListener('error', () => {
    const isOver = source.readyState === EventSource.CLOSED;
    state(isOver ? 'Not live: reload the page to see changes' : 'Connecting…', false);
  });
  for (const [name, handle] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => handle(event.data ? JSON.parse(event.data) : null));
  }
  addEventListener('pagehide', () => source.close());
  return source;
}
