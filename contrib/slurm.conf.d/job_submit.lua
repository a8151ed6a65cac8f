-- slurmsched: refuse malformed "slurmsched:" tokens in --comment, and requests for shared GPUs that only slurmsched
-- makes, while their author is still looking.
--
-- For Slurm's job_submit/lua plugin (JobSubmitPlugins=lua): slurmctld reads it from the directory of slurm.conf, and
-- again whenever it changes. It never stops a job for a fault of its own, and changes nothing in one unless
-- PROFILE_PARTITION is set: then new jobs may start there too; or STEER_DELAY_S: then new jobs for GPUs of any type wait
-- that long, so that the daemon can send them to a type before they start; or RIGHTSIZE_DELAY_S: then so do new jobs
-- that name the CPUs or the memory between which the daemon may choose (docs/powers.md); or LINE_AHEAD_S: then so do
-- all new jobs for GPUs, lest they start before the daemon has seen them (docs/policies.md).
-- A site that has a job_submit.lua keeps it: save this file as slurmsched.lua beside it and write
-- dofile("/etc/slurm/slurmsched.lua") before the last line of the site's; that asks us first, then the site.
--
-- The grammar is that of slurmsched/cluster/text/comment.py; a test feeds both the same comments.

local DAEMON_USER = "slurmsched" -- beside root, whom we let write slurmsched:share=

local SHARE_PARTITION = "shared" -- where jobs share GPUs (sharing.conf): only root and DAEMON_USER put jobs there

local PROFILE_PARTITION = "" -- where new jobs may start to be measured (docs/profiling.md); empty: nowhere
local PROFILE_GPUS = 8 -- most GPUs of such a job; profile.n_max of slurmsched.toml or more

local STEER_DELAY_S = 0 -- 0 for none; with power.steer a few seconds more than daemon.every_s
local RIGHTSIZE_DELAY_S = 0 -- 0 for none; the same with power.rightsize

local LINE_AHEAD_S = 0 -- 0 for any; with policy.admission = "load:X" three times daemon.every_s: new jobs for GPUs begin
-- no sooner, and users set no nearer StartTime, since Slurm would start such jobs before the daemon holds them in line

local ACCEPTED = "deadline=TIME, soft, PERCENT@TIME, gpus=MIN-MAX, ckpt, pack, nopack, noprofile, coldstart=SEC, amp, quiet, "
  .. "urgency=0..10, iterations=N, pace=SEC, done=N, stop=never|opt|acc:X|loss:P%, busy=opt|acc:X, "
  .. "graph=chain:N|layers:LxW|replicas:N, types=TYPE+TYPE, cpus=MIN-MAX, mem=MIN-MAX, batch=MIN-MAX, off"
local TIME = "a time: 2026-12-01T18:00[:SS], with Z or an offset such as +01:00 if not local, or +6h, +90m, +1d12h"
local NEAR = "is not read; write slurmsched: and what you ask for in small letters and without blanks"
local FLAGS = { soft = true, ckpt = true, pack = true, nopack = true, noprofile = true, quiet = true, amp = true, off = true }

-- [%w] and %s would follow the locale of slurmctld.
local WORD, BODY = "[A-Za-z0-9_]", "^[^ \t\n\v\f\r;]*"

-- What is wrong is raised as a table, so that a bug of ours (a string) is told apart and lets the job through.
local function refuse(item, trouble)
  local shown = item and "'" .. item:sub(1, 40):gsub("[^\32-\126]", "?") .. "' " or ""
  error({ text = "slurmsched: " .. shown .. trouble }, 0)
end

local function days_since_1970(year, month, day)
  if month < 3 then year, month = year - 1, month + 12 end -- years that begin in March end with the leap day
  local leap_days = math.floor(year / 4) - math.floor(year / 100) + math.floor(year / 400)
  return 365 * year + leap_days + math.floor((153 * month - 457) / 5) + day - 719469
end

local function seconds_of(t) -- a date as if it were UTC
  return ((days_since_1970(t.year, t.month, t.day) * 24 + t.hour) * 60 + t.min) * 60 + t.sec
end

local function days_in(year, month)
  return days_since_1970(month == 12 and year + 1 or year, month % 12 + 1, 1) - days_since_1970(year, month, 1)
end

-- The Unix time at which the controller's clock shows this; refused when daylight saving makes that none or two.
local function local_time(item, wall)
  local meant, offsets = {}, {}
  for _, day_s in ipairs({ -86400, 86400 }) do
    local east_s = seconds_of(os.date("*t", wall + day_s)) - wall - day_s
    local at = wall - east_s
    if seconds_of(os.date("*t", at)) == wall and meant[1] ~= at then meant[#meant + 1] = at end
    local minutes = math.floor(math.abs(east_s) / 60)
    offsets[#offsets + 1] = string.format("%s%02d:%02d", east_s < 0 and "-" or "+", math.floor(minutes / 60), minutes % 60)
  end
  if #meant == 1 then return meant[1] end
  refuse(item, (#meant == 2 and "happens twice" or "does not exist")
    .. " here (daylight saving): add an offset, " .. table.concat(offsets, " or "))
end

local function later(text) -- +1d12h in seconds, nil if it is none
  local rest, after_s, found = text:sub(2), 0, false
  for _, unit in ipairs({ { "d", 86400 }, { "h", 3600 }, { "m", 60 }, { "s", 1 } }) do
    local count, tail = rest:match("^([0-9]+)" .. unit[1] .. "(.*)$")
    if count and #count <= 6 then rest, after_s, found = tail, after_s + tonumber(count) * unit[2], true end
  end
  return found and rest == "" and after_s >= 1 and after_s <= 315360000 and after_s or nil
end

-- A time as { seconds since, kind = "submit" | "epoch" | "local" }; nil if it is none.
local function read_time(text)
  if text:sub(1, 1) == "+" then
    local after_s = later(text)
    return after_s and { at = after_s, kind = "submit" }
  end
  local year, month, day, hour, min, tail =
    text:match("^(2[01][0-9][0-9])%-([0-9][0-9])%-([0-9][0-9])T([0-9][0-9]):([0-9][0-9])(.*)$")
  if not year then return nil end
  local sec, zone = tail:match("^:([0-9][0-9])(.*)$")
  sec, zone = sec or "0", zone or tail
  local t = { year = tonumber(year), month = tonumber(month), day = tonumber(day),
    hour = tonumber(hour), min = tonumber(min), sec = tonumber(sec) }
  if t.month < 1 or t.month > 12 or t.day < 1 or t.day > days_in(t.year, t.month) then return nil end
  if t.hour > 23 or t.min > 59 or t.sec > 59 then return nil end
  if zone == "" then return { at = seconds_of(t), kind = "local" } end
  if zone == "Z" then return { at = seconds_of(t), kind = "epoch" } end
  local sign, east_h, east_m = zone:match("^([+-])([0-9][0-9]):([0-5][0-9])$")
  if not sign or tonumber(east_h) > 14 then return nil end
  return { at = seconds_of(t) - tonumber(sign .. "1") * (east_h * 60 + east_m) * 60, kind = "epoch" }
end

local function whole(least, most)
  local digits = #string.format("%.0f", most)
  return function(text)
    local number = text:match("^[0-9]+$") and #text <= digits and tonumber(text)
    return number and number >= least and number <= most and number
  end
end

local function range(text)
  local fewest, most = text:match("^([1-9][0-9]*)%-?([0-9]*)$")
  if not fewest or #fewest > 5 or #most > 5 then return false end
  if most == "" then return not text:find("-", 1, true) end
  return most:sub(1, 1) ~= "0" and text:find("-", 1, true) and tonumber(fewest) <= tonumber(most)
end

local function pace(text)
  local whole_s, decimals = text:match("^([0-9]+)%.?([0-9]*)$")
  if not whole_s or #whole_s > 6 or #decimals > 6 then return false end
  if decimals == "" and text:find(".", 1, true) then return false end
  return text:find("[1-9]") ~= nil
end

local function stop(text)
  if text == "never" or text == "opt" then return true end
  local whole, decimals = text:match("^loss:([0-9]+)(.*)%%$")
  if whole then
    if #whole > 2 or #decimals > 4 or not (decimals == "" or decimals:match("^%.[0-9]+$")) then return false end
    return (whole .. decimals):find("[1-9]") ~= nil
  end
  local level = text:match("^acc:([01])$") or text:match("^acc:([01]%.[0-9]+)$")
  return level and #level <= 12 and tonumber(level) <= 1
end

local function busy(text)
  return text ~= "never" and not text:match("^loss:") and stop(text)
end

local function graph(text)
  local tasks = text:match("^chain:([1-9][0-9]*)$") or text:match("^replicas:([1-9][0-9]*)$")
  if tasks then return #tasks <= 5 end
  local depth, width = text:match("^layers:([1-9][0-9]*)x([1-9][0-9]*)$")
  return depth and #depth <= 4 and #width <= 4
end

local function types(text)
  if #text > 100 or not text:match("^[A-Za-z0-9_.+-]+$") then return false end
  for name in (text .. "+"):gmatch("([^+]*)%+") do
    if not name:match("^[A-Za-z0-9]") then return false end
  end
  return true
end

local function mib(text)
  local number, unit = text:match("^([1-9][0-9]*)([MGT]?)$")
  if not number or #number > 9 then return nil end
  return tonumber(number) * ({ [""] = 1, M = 1, G = 1024, T = 1024 * 1024 })[unit]
end

local function memory(text)
  local least, most = text:match("^([^-]*)%-([^-]*)$")
  if not least then return mib(text) ~= nil end
  return mib(least) ~= nil and mib(most) ~= nil and mib(least) <= mib(most)
end

local VALUES = {
  deadline = { TIME, read_time },
  gpus = { "a number of GPUs such as 4 or a range such as 2-8", range },
  coldstart = { "whole seconds, 0 to 86400", whole(0, 86400) },
  urgency = { "a whole number, 0 to 10", whole(0, 10) },
  iterations = { "a whole number, 1 to 999999999999", whole(1, 999999999999) },
  done = { "a whole number, 0 to 999999999999", whole(0, 999999999999) },
  pace = { "seconds above 0 and below 1000000, with up to six decimals such as 0.25", pace },
  stop = { "never, opt, acc: and a fraction from 0 to 1 such as acc:0.93, or loss: and per cent such as loss:0.2%", stop },
  busy = { "opt, or acc: and a fraction from 0 to 1 such as acc:0.93", busy },
  graph = { "chain:, layers: or replicas: and the number of its tasks such as chain:8 or layers:4x2", graph },
  types = { "types of GPUs joined by +, such as a100+v100", types },
  batch = { "the samples of a step such as 256 or a range such as 256-1024", range },
  cpus = { "a number of CPUs per node such as 8 or a range such as 4-16", range },
  mem = { "the memory per node in M, G or T such as 32G or a range such as 16G-64G", memory },
}

-- How many letters to change, add or leave out to make one word of the other.
local function distance(one, other)
  local row = {}
  for at = 0, #other do row[at] = at end
  for at = 1, #one do
    local before = row[0]
    row[0] = at
    for to = 1, #other do
      local changed = before + (one:byte(at) == other:byte(to) and 0 or 1)
      before = row[to]
      row[to] = math.min(changed, row[to] + 1, row[to - 1] + 1)
    end
  end
  return row[#other]
end

local function meant(key) -- " (did you mean KEY?)", empty where none is near
  local nearest, least = nil, 3
  for _, names in ipairs({ FLAGS, VALUES }) do
    for name in pairs(names) do
      local far = #key <= 20 and distance(key:lower(), name) or least
      if far < least and 2 * far <= #name then nearest, least = name, far end
    end
  end
  return nearest and " (did you mean " .. nearest .. "?)" or ""
end

local function check_item(item, said, may_share)
  local key, equals, value = item:match("^([^=]*)(=?)(.*)$")
  if FLAGS[key] then
    if equals ~= "" then refuse(item, "has a value; " .. key .. " takes none") end
    value = true
  elseif key == "share" then
    if not may_share then refuse(item, "is not for users; only slurmsched writes it") end
    if #value > 64 or not value:match("^[A-Za-z0-9_.:+-]+$") then refuse(item, "does not fit") end
  elseif VALUES[key] then
    value = VALUES[key][2](value)
    if not value then refuse(item, "does not fit; " .. key .. " takes " .. VALUES[key][1]) end
  elseif item == "" then
    refuse(item, "names no key (no blanks round commas and colons); accepted: " .. ACCEPTED)
  elseif key:find("@", 1, true) then
    local percent, by = item:match("^([1-9][0-9]?)@(.*)$")
    local time = percent and read_time(by)
    if not time then refuse(item, "does not fit; PERCENT@TIME takes 1 to 99 and " .. TIME) end
    time.percent, time.item = tonumber(percent), item
    said.steps[#said.steps + 1] = time
    return
  else
    refuse(item, "is not known" .. meant(key) .. "; accepted: " .. ACCEPTED)
  end
  if type(value) == "table" then value.item = item end
  if said[key] then refuse(item, "is said twice; say each key once") end
  said[key] = value
end

local function check_times(said, now)
  local earlier = said.deadline
  if not earlier then
    if not said.soft and #said.steps == 0 then return end
    refuse(nil, "soft and PERCENT@TIME say what happens after a deadline; add deadline=TIME")
  end
  earlier.percent = 100
  table.insert(said.steps, 1, earlier)
  for place, time in ipairs(said.steps) do
    if place > 1 and (time.percent >= earlier.percent or (time.kind == earlier.kind and time.at <= earlier.at)) then
      refuse(nil, "PERCENT@TIME steps must fall in value and rise in time, after the deadline")
    end
    earlier = time
  end
  for _, time in ipairs(said.steps) do
    local at = time.kind == "local" and local_time(time.item, time.at) or time.at
    if now and time.kind ~= "submit" and at <= now then
      refuse(time.item, "is in the past: it is " .. os.date("%Y-%m-%dT%H:%M:%S", now) .. " here")
    end
  end
end

local function is_key(word)
  return word and (FLAGS[word] or VALUES[word] or word == "share")
end

-- Whether a key and what belongs to one, but no other words, stand there after blanks.
local function is_meant(small, from)
  local key, rest = small:match("^[ \t]+([a-z]+)()", from)
  if not is_key(key) then return false end
  local second = small:match("^,[ \t]*([a-z0-9]+)", rest)
  return small:find("^[ \t]*[=+;\n\v\f\r]", rest) or small:find("^[ \t]*$", rest)
    or is_key(second) or second and second:find("^[0-9]")
end

-- Refuses a key behind a name that is nearly ours, or behind ours with an equals sign: slurmshed:ckpt, slurmsched=ckpt.
local function check_near_name(comment)
  if not comment:find("[:=]") then return end
  local small, from = comment:lower(), 1
  while true do
    local first, last = small:find("[a-z_-]+", from)
    if not first then return end
    from = last + 1
    local name, size = small:sub(first, last), last - first + 1
    local mark, key, behind = small:match("^[ \t]*([:=])[ \t]*([a-z]+)()", from)
    local alone = first == 1 or not small:sub(first - 1, first - 1):match("[0-9]")
    if size >= 8 and size <= 12 and alone and is_key(key) and not small:find("^[0-9_]", behind) then
      local far = distance(name, "slurmsched")
      if far <= 2 and (far > 0 or mark == "=") then
        refuse(comment:sub(first, first + 39):match("^[^;\n]*"), NEAR)
      end
    end
  end
end

-- Refuses what only looks like a token: Slurmsched:ckpt, slurmsched ckpt, slurmsched :ckpt; slurmsched soft launch is text.
local function check_near(comment)
  local small, from = comment:lower(), 1
  while true do
    local first, last = small:find("slurmsched", from, true)
    if not first then return end
    from = last + 1
    local exact = comment:sub(first, last + 1) == "slurmsched:"
    if not exact and (first == 1 or not comment:sub(first - 1, first - 1):match(WORD)) then
      if small:find("^[ \t]*:", from) or is_meant(small, from) then
        refuse(comment:sub(first, first + 39):match("^[^;\n]*"), NEAR)
      end
    end
  end
end

local function each_item(comment, use) -- call use with each item of each "slurmsched:" token
  local from = 1
  while true do
    local first, last = comment:find("slurmsched:", from, true)
    if not first then return end
    from = last + 1
    if first == 1 or not comment:sub(first - 1, first - 1):match(WORD) then
      local body = comment:match(BODY, from)
      for item in (body .. ","):gmatch("([^,]*),") do use(item) end
      from = from + #body
    end
  end
end

local function shares_of(comment) -- its share tokens, as one text; empty where it has none
  local found = {}
  if type(comment) == "string" then
    each_item(comment, function(item) found[#found + 1] = item:match("^share=.*") end)
  end
  return table.concat(found, ",")
end

-- Raises a table with a text if the comment is malformed. Without `now`, times may lie in the past.
local function check(comment, may_share, now)
  local said = { steps = {} }
  each_item(comment, function(item) check_item(item, said, may_share) end)
  check_near(comment)
  check_near_name(comment)
  check_times(said, now)
  if said.done and said.iterations and said.done > said.iterations then
    refuse(nil, "done=N is more than iterations=N")
  end
end

local function uid_of(user) -- from /etc/passwd, where sysusers.d puts our user; nil if it is not there
  local passwd = io.open("/etc/passwd")
  if not passwd then return nil end
  local text, line = "\n" .. passwd:read("*a"), "\n" .. user .. ":"
  passwd:close()
  local first, last = text:find(line, 1, true) -- as it is: "-" and "." mean something else in a pattern
  return first and tonumber(text:match("^[^:\n]*:([0-9]+):", last + 1))
end

local DAEMON_UID = select(2, pcall(uid_of, DAEMON_USER))

local function is_shared(partitions)
  return type(partitions) == "string" and ("," .. partitions .. ","):find("," .. SHARE_PARTITION .. ",", 1, true) ~= nil
end

-- Raises a table with a text if a user asks for what only the daemon gives: slots, and the partition that has them.
local function check_request(job)
  for _, name in ipairs({ "tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task", "gres" }) do
    local request = job[name]
    if type(request) == "string" and ("," .. request:lower() .. ","):find("[,:/]slot[^a-z0-9_.+-]") then
      refuse(nil, "slots are not for users; ask for GPUs, and slurmsched makes slots of them where jobs share")
    end
  end
  if is_shared(job.partition) then
    refuse(nil, "the partition " .. SHARE_PARTITION .. " is not for users; slurmsched moves jobs there that may share")
  end
end

local function known(value) -- false where Slurm says that nothing was said: nil, NO_VAL16, NO_VAL, INFINITE
  return value ~= nil and value ~= "" and value ~= 65534 and value ~= 4294967294 and value ~= 4294967295
end

local PLACE = { "partition", "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task", "gres", "cpus_per_tres",
  "mem_per_tres", "req_nodes", "exc_nodes", "features", "reservation" }
local SIZE = { "min_nodes", "max_nodes", "ntasks_per_tres" }

-- Raises a table with a text if a user changes where a job of ours runs or what it has there: Slurm does not know that a
-- slot is half of a GPU, and would give it GPUs that others share.
local function check_change(job, record)
  local ours = shares_of(record.comment)
  if ours == "" and not is_shared(record.partition) then return end
  local trouble = "of a job that shares GPUs cannot be changed; cancel it, and submit it with slurmsched:nopack"
  for _, name in ipairs(PLACE) do
    if job[name] ~= nil then refuse(nil, name .. " " .. trouble) end -- an empty text is a change too
  end
  for _, name in ipairs(SIZE) do
    if known(job[name]) then refuse(nil, name .. " " .. trouble) end
  end
  if type(job.comment) == "string" and shares_of(job.comment) ~= ours then
    refuse(nil, "the comment of a job that shares GPUs keeps slurmsched:" .. ours)
  end
end

-- Raises a table with a text if a user lets a waiting job begin before the daemon can send it back to its line.
local function check_begin(job)
  if LINE_AHEAD_S <= 0 or not known(job.begin_time) or job.begin_time == 0 then return end
  if job.begin_time >= os.time() + LINE_AHEAD_S then return end
  refuse(nil, "StartTime: jobs wait in line here; accepted is a time " .. LINE_AHEAD_S .. " s or more from now")
end

-- Of a change, record is the job as it is.
local function check_all(job, may_share, now, record)
  if not may_share then check_request(job) end
  if not may_share and record then check_change(job, record) check_begin(job) end
  if type(job.comment) == "string" then
    check(job.comment, may_share or record and shares_of(job.comment) == shares_of(record.comment), now)
  end
end

-- How many GPUs a request such as gres:gpu:2,gres/gpu:a100=4 names.
local function gpus_in(request)
  local sum = 0
  for item in (type(request) == "string" and request or ""):gmatch("[^,]+") do
    local rest = item:gsub("^gres[:/]", ""):match("^gpu(.*)$")
    if rest == "" then sum = sum + 1
    elseif rest and rest:match("^[:=]") then sum = sum + (tonumber(rest:match("[:=]([0-9]+)$")) or 1) end
  end
  return sum
end

-- nil where it cannot be known for sure.
local function gpus_of(job)
  if gpus_in(job.tres_per_socket) > 0 then return nil end
  if gpus_in(job.tres_per_job) > 0 then return gpus_in(job.tres_per_job) end
  local per_task = gpus_in(job.tres_per_task)
  if per_task > 0 then return known(job.num_tasks) and per_task * job.num_tasks or nil end
  local nodes = known(job.min_nodes) and math.max(1, job.min_nodes) or 1
  if known(job.max_nodes) and job.max_nodes ~= 0 and job.max_nodes ~= nodes then return nil end
  return nodes * gpus_in(job.tres_per_node or job.gres)
end

local function said_to_stay(comment) -- off or noprofile
  for body in (type(comment) == "string" and comment or ""):gmatch("slurmsched:([^ \t\n\v\f\r;]*)") do
    for item in (body .. ","):gmatch("([^,]*),") do
      if item == "off" or item == "noprofile" then return true end
    end
  end
  return false
end

-- Whether a job is as well off in one partition as in the other: its time limit must mean the same in both.
local function as_good(profile, home, limit)
  if known(limit) then return profile.max_time >= limit or profile.max_time >= home.max_time end
  return profile.max_time == home.max_time and profile.default_time == home.default_time
end

-- The partitions that a new job should ask for; nil where it stays as it is.
local function with_profiling(job, partitions)
  local profile = PROFILE_PARTITION ~= "" and partitions[PROFILE_PARTITION]
  if not profile or said_to_stay(job.comment) then return nil end
  if not known(job.script) or known(job.array_inx) or known(job.het_job_offset) then return nil end
  if known(job.req_nodes) or known(job.reservation) then return nil end
  local gpus, home = gpus_of(job), known(job.partition) and job.partition or nil
  if not gpus or gpus < 1 or gpus > PROFILE_GPUS then return nil end
  if not home then
    for name, partition in pairs(partitions) do
      if partition.flag_default == 1 or partition.flag_default == true then home = name end
    end
  end
  if not home then return nil end
  for name in home:gmatch("[^,]+") do
    local own = partitions[name]
    if name == PROFILE_PARTITION or not own or not as_good(profile, own, job.time_limit) then return nil end
  end
  return PROFILE_PARTITION .. "," .. home
end

-- Whether a request such as gres:gpu:2,gres/gpu=4 names GPUs, all of them without a type.
local function has_open_gpus(job)
  local open = false
  for _, name in ipairs({ "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task", "gres" }) do
    for item in (type(job[name]) == "string" and job[name] or ""):gmatch("[^,]+") do
      local rest = item:gsub("^gres[:/]", ""):match("^gpu(.*)$")
      if rest and rest ~= "" and not rest:match("^[:=][0-9]+$") then return false end
      open = open or rest ~= nil
    end
  end
  return open
end

-- Whether a comment has an item that matches pattern.
local function said(comment, pattern)
  local found = false
  if type(comment) == "string" then each_item(comment, function(item) found = found or item:match(pattern) ~= nil end) end
  return found
end

local function steered_after_s(job)
  if not has_open_gpus(job) then return 0 end
  for _, name in ipairs({ "req_nodes", "exc_nodes", "features", "reservation" }) do
    if known(job[name]) then return 0 end
  end
  return STEER_DELAY_S
end

local function sized_after_s(job)
  local named = said(job.comment, "^cpus=") or said(job.comment, "^mem=")
  return named and not known(job.reservation) and RIGHTSIZE_DELAY_S or 0
end

-- Whether a job asks for GPUs, in whatever way.
local function has_gpus(job)
  for _, name in ipairs({ "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task", "gres" }) do
    if gpus_in(job[name]) > 0 then return true end
  end
  return false
end

-- No token is a way past the line.
local function lined_up_after_s(job) return has_gpus(job) and not known(job.reservation) and LINE_AHEAD_S or 0 end

local function changed_after_s(job)
  if STEER_DELAY_S <= 0 and RIGHTSIZE_DELAY_S <= 0 or said(job.comment, "^off$") then return 0 end
  if not known(job.script) or known(job.het_job_offset) then return 0 end
  return math.max(steered_after_s(job), sized_after_s(job))
end

-- The begin time of a new job that the daemon may hold, send to a type of GPU, or size; nil where it stays as it is.
local function seen_from(job, now)
  local delay_s = math.max(lined_up_after_s(job), changed_after_s(job))
  local begin = known(job.begin_time) and job.begin_time or 0
  return delay_s > 0 and begin < now + delay_s and now + delay_s or nil
end

local function verdict(job, uid, now, record)
  local fine, trouble = pcall(check_all, job, uid == 0 or uid == DAEMON_UID, now, record)
  if fine then return slurm.SUCCESS end
  if type(trouble) == "table" then
    pcall(slurm.log_user, "%s", trouble.text) -- in slurm_job_modify, Slurm before 23.02 puts it into its log instead
    return slurm.ERROR
  end
  pcall(slurm.log_info, "slurmsched: comment not checked, a fault in job_submit.lua: %s", tostring(trouble))
  return slurm.SUCCESS
end

local site_submit, site_modify = slurm_job_submit, slurm_job_modify -- set where a site's own script calls this one

function slurm_job_submit(job, partitions, uid)
  local answer = verdict(job, uid, os.time())
  if answer == slurm.SUCCESS and site_submit then answer = site_submit(job, partitions, uid) end
  if answer == slurm.SUCCESS then
    local fine, wanted = pcall(with_profiling, job, partitions)
    if fine and wanted then job.partition = wanted end
    if not fine then pcall(slurm.log_info, "slurmsched: a fault in job_submit.lua: %s", tostring(wanted)) end
    local well, from_s = pcall(seen_from, job, os.time())
    if well and from_s then job.begin_time = from_s end
    if not well then pcall(slurm.log_info, "slurmsched: a fault in job_submit.lua: %s", tostring(from_s)) end
  end
  return answer
end

function slurm_job_modify(job, record, partitions, uid)
  -- The daemon adds its share token to comments that are not its to judge.
  local answer = uid == DAEMON_UID and slurm.SUCCESS or verdict(job, uid, nil, record)
  if answer == slurm.SUCCESS and site_modify then return site_modify(job, record, partitions, uid) end
  return answer
end

return slurm.SUCCESS
