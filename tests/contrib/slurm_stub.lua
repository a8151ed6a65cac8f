-- Stands in for slurmctld: loads a job_submit.lua, asks it about each comment on stdin, prints what a user would see.
-- arg: the script, the time it shall believe to be now. A line in: submit|modify, uid, the comment in hex.
-- A line out: yes|no|silent and the message in hex; "silent" is a refusal that says nothing.
local now, said = tonumber(arg[2]), {}
local clock = os.time
os.time = function(t) return t and clock(t) or now end
slurm = { SUCCESS = 0, ERROR = -1, NO_VAL = 4294967294 }
function slurm.log_user(...) said[#said + 1] = string.format(...) end
function slurm.log_info(...) io.stderr:write(string.format(...), "\n") end
assert(dofile(arg[1]) == slurm.SUCCESS)
for line in io.lines() do
  local entry, uid, hex = line:match("^(%S+) (%d+) (%x*)$")
  local comment = hex:gsub("%x%x", function(byte) return string.char(tonumber(byte, 16)) end)
  said = {}
  local job, answer = { comment = comment }, nil
  if entry == "submit" then answer = slurm_job_submit(job, {}, tonumber(uid))
  else answer = slurm_job_modify(job, {}, {}, tonumber(uid)) end
  local text = table.concat(said, "\n"):gsub(".", function(c) return string.format("%02x", c:byte()) end)
  assert(job.comment == comment)
  print((answer == 0 and "yes" or #said > 0 and "no" or "silent") .. " " .. text)
end
